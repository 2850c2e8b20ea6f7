package facts

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// watchCounters reads all counters at two looks, between which it waits. wait is
// pause, but in tests.
func watchCounters(ctx context.Context, s *source, devices []HCA, between time.Duration, wait func(context.Context, time.Duration) bool) error {
	ports := map[string]*Port{} // by the port's directory
	for i := range devices {
		for j := range devices[i].Ports {
			p := &devices[i].Ports[j]
			ports[path.Join(classRDMA, devices[i].Name, "ports", strconv.Itoa(p.Num))] = p
		}
	}
	dirs := slices.Sorted(maps.Keys(ports))
	for _, dir := range dirs {
		ports[dir].Counters, ports[dir].Unread = counters(s, dir)
	}
	if len(dirs) == 0 {
		return nil
	}
	if !wait(ctx, between) {
		return errors.New("counters were not watched: " + context.Cause(ctx).Error())
	}
	for _, dir := range dirs {
		ports[dir].Delta = grown(s, dir, ports[dir].Counters)
	}
	return nil
}

// maxCounter is more than the characters of a 64-bit number.
const maxCounter = 30

// counterDirs are where counters are below a port. They have no name in common.
func counterDirs() []string { return []string{"/counters/", "/hw_counters/"} }

// counters reads the counters of a port. Some devices answer EINVAL to some, and fill the
// kernel's log: those are not asked again.
func counters(s *source, dir string) (values map[string]uint64, unread []string) {
	values = map[string]uint64{}
	for _, below := range counterDirs() {
		for _, name := range s.list(dir + below) {
			if name == "lifespan" { // how long the kernel keeps values, in milliseconds
				continue
			}
			n, err := counter(s, dir+below+name)
			switch {
			case err == nil:
				values[plain(name, 64)] = n
			case errors.Is(err, unix.EINVAL):
				unread = append(unread, plain(name, 64))
			}
		}
	}
	return values, unread
}

func counter(s *source, file string) (uint64, error) {
	text, err := s.read(file, maxCounter)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// grown reads the counters again that could be read, and returns by how much each has
// grown that has.
func grown(s *source, dir string, before map[string]uint64) map[string]uint64 {
	var out map[string]uint64
	for _, below := range counterDirs() {
		for _, name := range s.list(dir + below) {
			was, known := before[name]
			if !known {
				continue
			}
			if now, err := counter(s, dir+below+name); err == nil && now > was {
				if out == nil {
					out = map[string]uint64{}
				}
				out[name] = now - was
			}
		}
	}
	return out
}
