package facts

import "sync"

// common is what several items of a collection look at, so that only the first does. What
// panics in one panics in all of them.
type common struct {
	bus    func() []PCIDevice
	mounts func() []mount
}

// newCommon looks by s.
func newCommon(s *source) *common {
	return &common{sync.OnceValue(s.readBus), sync.OnceValue(s.readMounts)}
}

// pciIdentities lists the devices on the bus, in order, by what they are alone.
func (s *source) pciIdentities() []PCIDevice {
	if s.common == nil {
		return s.readBus()
	}
	s.at(pciDir) // where this item hangs if the look does
	return s.common.bus()
}

// mountTable lists the mounts as they were when an item looked first.
func (s *source) mountTable() []mount {
	if s.common == nil {
		return s.readMounts()
	}
	s.at(mountinfo)
	return s.common.mounts()
}

// mountAt returns the mount that holds dir, a path without symbolic links, and is of
// the device given.
func (s *source) mountAt(dir string, device uint64) (mount, bool) {
	if m, ok := mountOf(s.mountTable(), dir); ok && m.device == device {
		return m, true
	}
	return mountOf(s.readMounts(), dir) // it was mounted when it was looked at
}
