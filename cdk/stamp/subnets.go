package stamp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// A cell's own network is cut into 16 blocks. The first zoneRoom are those of the zones a to h, of
// which no region has more than six today, and the upper half are those of the same zones' public subnets.
const (
	zoneRoom  = 8
	blockBits = 4
)

// half is the half of a network that subnets of one kind lie in.
type half uint32

const (
	privateHalf half = 0
	publicHalf  half = zoneRoom
)

// subnetBlocks gives each zone its block in one half of the network. The zone's letter alone says which: zones
// come, go and change order without moving another's subnet. cidr is an IPv4 network of /16 to /20.
func subnetBlocks(cidr string, zones []string, in half) (map[string]string, error) {
	network, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("cidr %q is no network: %w", cidr, err)
	}
	bits := network.Bits() + blockBits
	base := network.Masked().Addr().As4()
	start := binary.BigEndian.Uint32(base[:])
	blocks := make(map[string]string, len(zones))
	for _, z := range zones {
		if len(z) != 1 || z[0] < 'a' || z[0] >= 'a'+zoneRoom {
			return nil, fmt.Errorf("zone %q has no block", z)
		}
		var addr [4]byte
		binary.BigEndian.PutUint32(addr[:], start+(uint32(in)+uint32(z[0]-'a'))<<(32-bits))
		blocks[z] = netip.PrefixFrom(netip.AddrFrom4(addr), bits).String()
	}
	return blocks, nil
}
