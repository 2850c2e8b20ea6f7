package transport

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// ofFamily keeps the addresses of the family that AddressFamily wants.
func (s *settings) ofFamily(addrs []netip.Addr) ([]netip.Addr, error) {
	if s.family == "any" || s.family == "" {
		return addrs, nil
	}
	kept := slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return a.Is4() != (s.family == "v4") })
	if len(kept) == 0 {
		return nil, fmt.Errorf("%s has no IP%s address, and AddressFamily wants no other", s.shown(), s.family)
	}
	return kept, nil
}

// bound reports whether connections are to come from a certain address.
func (s *settings) bound() bool { return s.bindAddress != "" || s.bindInterface != "" }

// boundDial connects from the address of BindAddress, or one of BindInterface.
func (s *settings) boundDial(ctx context.Context, limit time.Duration) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	own, err := s.ownAddrs(ctx, limit)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(addr)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(own, func(a netip.Addr) bool { return a.Is4() == to.Addr().Is4() })
		if i < 0 {
			return nil, fmt.Errorf("%s: there is no address of its family to connect from (BindAddress, BindInterface)", addr)
		}
		d := net.Dialer{KeepAlive: -1, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(own[i], 0))}
		return d.DialContext(ctx, network, addr)
	}, nil
}

func (s *settings) ownAddrs(ctx context.Context, limit time.Duration) ([]netip.Addr, error) {
	if s.bindAddress != "" {
		addrs, err := resolve(ctx, s.bindAddress, limit)
		if err != nil {
			return nil, fmt.Errorf("BindAddress %s: %w", s.bindAddress, err)
		}
		return addrs, nil
	}
	iface, err := net.InterfaceByName(s.bindInterface)
	if err != nil {
		return nil, fmt.Errorf("BindInterface %s: %w", s.bindInterface, err)
	}
	var own []netip.Addr
	addrs, err := iface.Addrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
			own = append(own, p.Addr().Unmap())
		}
	}
	return own, err
}
