package facts

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
)

const maxLinks = 256 // of one GPU

// nvlinks is what nvidia-smi nvlink -s says of one GPU.
type nvlinks struct {
	index int
	uuid  string
	name  string
	up    []int
	down  []int
	none  bool // it says that no link runs, and lists none
}

// parseNVLink reads the output of nvidia-smi nvlink -s:
//
//	GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5269b708-678a-b1a8-60f0-c90406537486)
//	         Link 0: 25 GB/s
//	         Link 1: <inactive>
func parseNVLink(text string) []nvlinks {
	var out []nvlinks
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if gpu, ok := parseNVLinkGPU(line); ok && len(out) < maxGPUs {
			out = append(out, gpu)
			continue
		}
		if len(out) > 0 {
			out[len(out)-1].line(line)
		}
	}
	return out
}

// parseNVLinkGPU reads the line with which a GPU begins.
func parseNVLinkGPU(line string) (nvlinks, bool) {
	rest, ok := strings.CutPrefix(line, "GPU ")
	number, rest, ok2 := strings.Cut(rest, ":")
	index, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil || index < 0 {
		return nvlinks{}, false
	}
	name, rest, _ := strings.Cut(rest, "(UUID:")
	uuid, _, _ := strings.Cut(rest, ")")
	return nvlinks{index: index, uuid: told(strings.TrimSpace(uuid)), name: told(strings.TrimSpace(name))}, true
}

// line takes a line below a GPU's.
func (l *nvlinks) line(line string) {
	lower := strings.ToLower(line)
	if strings.Contains(lower, "all links are inactive") {
		l.none = true
		return
	}
	rest, ok := strings.CutPrefix(lower, "link ")
	number, state, colon := strings.Cut(rest, ":")
	if !colon {
		number, state, _ = strings.Cut(rest, " ") // "Link 3 is inactive"
	}
	link, err := strconv.Atoi(strings.TrimSpace(number))
	if !ok || err != nil || link < 0 || link >= maxLinks || slices.Contains(l.down, link) || slices.Contains(l.up, link) {
		return
	}
	// What runs has a speed; all else are words: <inactive>, FEATURE_DISABLED, disabled.
	if speed, _, _ := strings.Cut(strings.TrimSpace(state), "."); amount(speed) > 0 {
		l.up = append(l.up, link)
	} else {
		l.down = append(l.down, link)
	}
}

// collectNVLink sets the NVLinks of h.GPU.Devices from nvidia-smi nvlink -s. GPUs that are
// not listed there are added, with nothing else known of them.
func collectNVLink(ctx context.Context, src *source, h *Host) error {
	out, err := src.ask(ctx, "nvlink", "-s")
	exit, ended := errors.AsType[*exitError](err)
	if err != nil && !ended {
		return err // the list may break off anywhere
	}
	all := parseNVLink(string(out))
	h.GPU.setLinks(all)
	if ended && len(all) == 0 && exit.code != smiNotOffered {
		return err
	}
	// Else one GPU may not have answered, or none has NVLinks at all.
	return nil
}

func (g *GPU) setLinks(all []nvlinks) {
	for _, l := range all {
		d := g.find(l.uuid, l.index)
		if d == nil {
			g.Devices = append(g.Devices, newDevice())
			d = &g.Devices[len(g.Devices)-1]
			d.Index, d.UUID, d.Name = l.index, l.uuid, l.name
		}
		d.NVActive, d.NVDown = len(l.up), l.down
		d.NVLinks = len(l.up) + len(l.down)
		if l.none && d.NVLinks == 0 {
			d.NVLinks = -1 // how many there are is not said
		}
	}
}

// find returns the GPU with a UUID, or with an index if one of both has no UUID.
func (g *GPU) find(uuid string, index int) *Device {
	i := slices.IndexFunc(g.Devices, func(d Device) bool { return uuid != "" && d.UUID == uuid })
	if i < 0 {
		i = slices.IndexFunc(g.Devices, func(d Device) bool { return d.Index == index && (d.UUID == "" || uuid == "") })
	}
	if i < 0 {
		return nil
	}
	return &g.Devices[i]
}
