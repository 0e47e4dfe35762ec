package mcp

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrAddressRefused is returned when a name resolves to an address that may not be dialled.
var ErrAddressRefused = errors.New("address refused by policy")

// AddressPolicy says which addresses requests on behalf of a session's author may go to. It is asked after name
// resolution, for the address that is about to be dialled, so that no name can point elsewhere between check and use.
//
// Link-local and cloud metadata addresses are refused unless Allowed has them, multicast and unspecified ones always. The
// zero value admits public addresses only.
type AddressPolicy struct {
	// AllowLoopback admits 127.0.0.0/8 and ::1.
	AllowLoopback bool
	// AllowPrivate admits the private ranges of RFC 1918, RFC 4193 and RFC 6598: most in-cluster services.
	AllowPrivate bool
	// Allowed admits its ranges, whatever they are otherwise. An IPv6 address that leads to an IPv4 one is admitted by its
	// own range.
	Allowed []netip.Prefix
}

// metadataAddresses serve credentials of the machine to whoever asks and are not all link-local.
var metadataAddresses = map[netip.Addr]bool{
	netip.MustParseAddr("168.63.129.16"):   true,
	netip.MustParseAddr("100.100.100.200"): true,
	netip.MustParseAddr("192.0.0.192"):     true,
	netip.MustParseAddr("fd00:ec2::254"):   true,
	netip.MustParseAddr("fd20:ce::254"):    true,
}

var (
	sharedRange    = netip.MustParsePrefix("100.64.0.0/10")
	thisNetwork    = netip.MustParsePrefix("0.0.0.0/8")
	reservedFuture = netip.MustParsePrefix("240.0.0.0/4")
	siteLocal      = netip.MustParsePrefix("fec0::/10")
)

// translations are the IPv6 ranges whose addresses lead to an IPv4 address, and where in them it is.
var translations = []struct {
	prefix   netip.Prefix
	at       int
	inverted bool
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12, false},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12, false},  // NAT64 of a site, as most of them write it
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12, false}, // IPv4-translated
	{netip.MustParsePrefix("::/96"), 12, false},           // IPv4-compatible, once
	{netip.MustParsePrefix("2002::/16"), 2, false},        // 6to4
	{netip.MustParsePrefix("2001::/32"), 12, true},        // Teredo
}

// Check returns ErrAddressRefused, with the reason, when the address may not be dialled.
func (p AddressPolicy) Check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	for _, allowed := range p.Allowed {
		if allowed.Contains(addr) && !undialable(addr) {
			return nil
		}
	}
	if inner, ok := embedded(addr); ok {
		if err := p.Check(inner); err != nil {
			return err
		}
	}
	switch {
	case undialable(addr):
		return fmt.Errorf("%w: not the address of one machine", ErrAddressRefused)
	case metadataAddresses[addr]:
		return fmt.Errorf("%w: metadata service", ErrAddressRefused)
	case addr.IsLinkLocalUnicast() || siteLocal.Contains(addr):
		return fmt.Errorf("%w: link-local", ErrAddressRefused)
	case addr.IsLoopback() && !p.AllowLoopback:
		return fmt.Errorf("%w: loopback", ErrAddressRefused)
	case (addr.IsPrivate() || sharedRange.Contains(addr)) && !p.AllowPrivate:
		return fmt.Errorf("%w: private", ErrAddressRefused)
	}
	return nil
}

// undialable says that an address is no machine's: unspecified, which leads to this one, or of many.
func undialable(addr netip.Addr) bool {
	return !addr.IsValid() || addr.IsUnspecified() || thisNetwork.Contains(addr) || addr.IsMulticast() || reservedFuture.Contains(addr)
}

// embedded is the IPv4 address that an IPv6 address of a translation range leads to.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return netip.Addr{}, false
	}
	raw := addr.As16()
	for _, t := range translations {
		if !t.prefix.Contains(addr) {
			continue
		}
		inner := [4]byte(raw[t.at : t.at+4])
		if t.inverted {
			for i := range inner {
				inner[i] = ^inner[i]
			}
		}
		return netip.AddrFrom4(inner), true
	}
	return netip.Addr{}, false
}

// Control is a net.Dialer's Control: it checks the resolved address just before the connection is made.
func (p AddressPolicy) Control(_, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: not an IP address", ErrAddressRefused)
	}
	return p.Check(target.Addr())
}
