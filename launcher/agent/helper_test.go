package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"gorun/rendezvous"
)

// helper is a program that ranks run. It returns its exit code.
func helper(name string, args []string) int {
	switch name {
	case "args": // prints its arguments, quoted
		for _, a := range args {
			fmt.Printf("%q\n", a)
		}
	case "daemon": // leaves a process that is in no group or session of ours
		return daemon(args)
	case "stubborn": // ignores what can be ignored
		stubborn()
	case "flood": // prints N bytes, a pattern of its own
		return flood(args[0], args[1])
	case "shm": // maps files and waits
		return mapFiles(args)
	case "store": // puts a key into the store
		return putKey()
	case "barrier": // waits for ranks that do not come
		return enterBarrier()
	case "talk": // takes a connection, and reads what never comes
		return talk()
	case "perftest":
		return perftest(args)
	case "exit":
		code, _ := strconv.Atoi(args[0])
		return code
	}
	return 0
}

// perftest is a program of perftest that uses TCP, and says that it was fast.
func perftest(args []string) int {
	port := args[slices.Index(args, "-p")+1]
	var conn net.Conn
	var err error
	if _, bad := netip.ParseAddr(args[len(args)-1]); bad == nil {
		conn, err = net.Dial("tcp", net.JoinHostPort(args[len(args)-1], port))
	} else if lis, trouble := net.Listen("tcp", ":"+port); trouble == nil {
		conn, err = lis.Accept()
	} else {
		err = trouble
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if slices.Contains(args, "hangs") {
		select {}
	}
	conn.Close()
	fmt.Print(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 1048576    46000   0.00   80.00   0.01\n")
	return 0
}

// daemon forks twice, with a new session each time; the last process ignores TERM
// and prints its pid.
func daemon(args []string) int {
	depth := 0
	if len(args) > 0 {
		depth, _ = strconv.Atoi(args[0])
	}
	if depth == 2 {
		fmt.Printf("daemon %d\n", os.Getpid())
		stubborn()
	}
	cmd := exec.Command(os.Args[0], "helper", "daemon", strconv.Itoa(depth+1))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func stubborn() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	fmt.Printf("stubborn %d\n", os.Getpid())
	select {}
}

// flood prints count bytes; the byte at offset i depends on i and seed.
func flood(count, seed string) int {
	n, _ := strconv.Atoi(count)
	s, _ := strconv.Atoi(seed)
	buf := make([]byte, 8192)
	for at := 0; at < n; {
		m := min(len(buf), n-at)
		for i := range m {
			buf[i] = pattern(at+i, s)
		}
		if _, err := os.Stdout.Write(buf[:m]); err != nil {
			return 1
		}
		at += m
	}
	return 0
}

func pattern(i, seed int) byte { return byte(i*31 + i>>13 + seed) }

func putKey() int {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	c, err := rendezvous.Dial(ctx)
	if err == nil {
		defer c.Close()
		err = c.Put(ctx, "key", []byte("value"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("put")
	return 0
}

// mapFiles creates and maps files, says so, and ends only by force.
func mapFiles(paths []string) int {
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = f.Truncate(4096)
		}
		if err == nil {
			_, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		f.Close()
	}
	stubborn()
	return 0
}

func enterBarrier() int {
	c, err := rendezvous.Dial(context.Background())
	if err == nil {
		defer c.Close()
		fmt.Println("entering")
		err = c.Barrier(context.Background(), "all \x1b here")
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// talk prints the port on which it takes one connection, and reads from that.
func talk() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Printf("listening %d\n", l.Addr().(*net.TCPAddr).Port)
	c, err := l.Accept()
	if err == nil {
		fmt.Println("reading")
		_, err = c.Read(make([]byte, 1))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
