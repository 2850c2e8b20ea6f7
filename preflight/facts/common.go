package facts

import "sync"

// common is what several items of a collection look at, so that only the first does.
type common struct {
	busOnce sync.Once
	bus     []PCIDevice

	mountsOnce sync.Once
	mounts     []mount
}

// pciIdentities lists the devices on the bus, in order, by what they are alone.
func (s *source) pciIdentities() []PCIDevice {
	if s.common == nil {
		return s.readBus()
	}
	s.at(pciDir) // where this item hangs, if the one that looks does
	s.common.busOnce.Do(func() { s.common.bus = s.readBus() })
	return s.common.bus
}

// mountTable lists the mounts as they were when an item looked first.
func (s *source) mountTable() []mount {
	if s.common == nil {
		return s.readMounts()
	}
	s.at(mountinfo)
	s.common.mountsOnce.Do(func() { s.common.mounts = s.readMounts() })
	return s.common.mounts
}

// mountAt returns the mount that holds dir, a path without symbolic links, and is of
// the device given.
func (s *source) mountAt(dir string, device uint64) (mount, bool) {
	if m, ok := mountOf(s.mountTable(), dir); ok && m.device == device {
		return m, true
	}
	return mountOf(s.readMounts(), dir) // it was mounted when it was looked at
}
