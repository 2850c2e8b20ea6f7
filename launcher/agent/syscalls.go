package agent

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// call is a system call in which a thread waits.
type call struct {
	name string // "" if it has none here
	fd   int    // the file it is about; -1: none
}

// parseCall reads /proc/PID/syscall: the call's number, its arguments in hexadecimal
// digits, and two registers. "running" and "-1 …" are no call.
func parseCall(s string) call {
	f := strings.Fields(s)
	if len(f) < 2 {
		return call{fd: -1}
	}
	number, err := strconv.Atoi(f[0])
	if err != nil || number < 0 {
		return call{fd: -1}
	}
	if name, ok := callNames()[number]; ok {
		return call{name, -1}
	}
	name, ok := fileCallNames()[number]
	fd, err := strconv.ParseUint(strings.TrimPrefix(f[1], "0x"), 16, 31)
	if !ok || err != nil {
		return call{name: name, fd: -1}
	}
	return call{name, int(fd)}
}

// fileCallNames are the calls whose first argument is the file that they wait for.
func fileCallNames() map[int]string {
	return map[int]string{
		unix.SYS_READ: "read", unix.SYS_READV: "readv", unix.SYS_PREAD64: "pread",
		unix.SYS_WRITE: "write", unix.SYS_WRITEV: "writev", unix.SYS_PWRITE64: "pwrite",
		unix.SYS_RECVFROM: "recv", unix.SYS_RECVMSG: "recvmsg", unix.SYS_RECVMMSG: "recvmmsg",
		unix.SYS_SENDTO: "send", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDMMSG: "sendmmsg",
		unix.SYS_CONNECT: "connect", unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept",
		unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_FTRUNCATE: "ftruncate",
		unix.SYS_FLOCK: "flock", unix.SYS_FCNTL: "fcntl", unix.SYS_IOCTL: "ioctl",
		unix.SYS_SENDFILE: "sendfile", unix.SYS_SPLICE: "splice", unix.SYS_GETDENTS64: "getdents",
		unix.SYS_CLOSE: "close",
	}
}

// callNames are other calls in which programs wait.
func callNames() map[int]string {
	names := map[int]string{
		unix.SYS_FUTEX: "futex", unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_CLOCK_NANOSLEEP: "nanosleep",
		unix.SYS_PPOLL: "poll", unix.SYS_PSELECT6: "select", unix.SYS_EPOLL_PWAIT: "epoll_wait", unix.SYS_EPOLL_PWAIT2: "epoll_wait",
		unix.SYS_WAIT4: "wait", unix.SYS_WAITID: "wait", unix.SYS_RT_SIGSUSPEND: "sigsuspend", unix.SYS_RT_SIGTIMEDWAIT: "sigwait",
		unix.SYS_SEMTIMEDOP: "semop", unix.SYS_MSGRCV: "msgrcv", unix.SYS_MSGSND: "msgsnd",
		unix.SYS_MQ_TIMEDRECEIVE: "mq_receive", unix.SYS_MQ_TIMEDSEND: "mq_send",
		unix.SYS_IO_GETEVENTS: "io_getevents", unix.SYS_IO_URING_ENTER: "io_uring_enter",
		unix.SYS_OPENAT: "open", unix.SYS_OPENAT2: "open", unix.SYS_NEWFSTATAT: "stat", unix.SYS_STATX: "stat", unix.SYS_FACCESSAT: "access",
		unix.SYS_UNLINKAT: "unlink", unix.SYS_RENAMEAT2: "rename", unix.SYS_MKDIRAT: "mkdir",
		unix.SYS_SYNC: "sync", unix.SYS_SYNCFS: "syncfs", unix.SYS_EXECVE: "execve", unix.SYS_EXIT_GROUP: "exit", unix.SYS_EXIT: "exit",
		unix.SYS_MMAP: "mmap", unix.SYS_MUNMAP: "munmap", unix.SYS_MSYNC: "msync", unix.SYS_MADVISE: "madvise",
		unix.SYS_CLONE: "clone", unix.SYS_PTRACE: "ptrace",
	}
	oldCalls(names)
	return names
}
