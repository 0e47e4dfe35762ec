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
// Link-local, multicast, unspecified and cloud metadata addresses are refused whatever the policy says.
type AddressPolicy struct {
	// AllowLoopback admits 127.0.0.0/8 and ::1.
	AllowLoopback bool
	// AllowPrivate admits the private ranges of RFC 1918, RFC 4193 and RFC 6598: most in-cluster services.
	AllowPrivate bool
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
	translated     = netip.MustParsePrefix("64:ff9b::/96") // NAT64: the IPv4 address is in the last four bytes
	tunnelled      = netip.MustParsePrefix("2002::/16")    // 6to4: the IPv4 address is in bytes 2 to 5
	siteLocal      = netip.MustParsePrefix("fec0::/10")
)

// Check returns ErrAddressRefused, with the reason, when the address may not be dialled.
func (p AddressPolicy) Check(addr netip.Addr) error {
	addr = addr.WithZone("").Unmap()
	if inner, ok := embedded(addr); ok {
		if err := p.Check(inner); err != nil {
			return err
		}
	}
	switch {
	case !addr.IsValid() || addr.IsUnspecified() || thisNetwork.Contains(addr):
		return fmt.Errorf("%w: unspecified", ErrAddressRefused)
	case metadataAddresses[addr]:
		return fmt.Errorf("%w: metadata service", ErrAddressRefused)
	case addr.IsLinkLocalUnicast() || siteLocal.Contains(addr):
		return fmt.Errorf("%w: link-local", ErrAddressRefused)
	case addr.IsMulticast() || reservedFuture.Contains(addr):
		return fmt.Errorf("%w: not a unicast address", ErrAddressRefused)
	case addr.IsLoopback() && !p.AllowLoopback:
		return fmt.Errorf("%w: loopback", ErrAddressRefused)
	case (addr.IsPrivate() || sharedRange.Contains(addr)) && !p.AllowPrivate:
		return fmt.Errorf("%w: private", ErrAddressRefused)
	}
	return nil
}

// embedded is the IPv4 address that an IPv6 address of a translation range leads to.
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	raw := addr.As16()
	switch {
	case translated.Contains(addr):
		return netip.AddrFrom4([4]byte(raw[12:16])), true
	case tunnelled.Contains(addr):
		return netip.AddrFrom4([4]byte(raw[2:6])), true
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
