package agent

import "golang.org/x/sys/unix"

// oldCalls adds the calls that only older architectures have.
func oldCalls(names map[int]string) {
	names[unix.SYS_POLL], names[unix.SYS_SELECT], names[unix.SYS_EPOLL_WAIT] = "poll", "select", "epoll_wait"
	names[unix.SYS_PAUSE], names[unix.SYS_OPEN], names[unix.SYS_STAT], names[unix.SYS_LSTAT] = "pause", "open", "stat", "stat"
	names[unix.SYS_ACCESS], names[unix.SYS_UNLINK], names[unix.SYS_RENAME], names[unix.SYS_MKDIR] = "access", "unlink", "rename", "mkdir"
	names[unix.SYS_SEMOP] = "semop"
	names[unix.SYS_FORK], names[unix.SYS_VFORK] = "fork", "vfork"
}
