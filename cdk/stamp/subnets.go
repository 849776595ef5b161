package stamp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// A cell's own network is cut into 16 blocks. The first zoneRoom are those of the zones a to h, of
// which no region has more than six today; the upper half stays free for subnets of another kind.
const (
	zoneRoom  = 8
	blockBits = 4
)

// subnetBlocks gives each zone its block of the network. The zone's letter alone says which: zones
// come, go and change order without moving another's subnet. cidr is an IPv4 network of /16 to /20.
func subnetBlocks(cidr string, zones []string) (map[string]string, error) {
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
		binary.BigEndian.PutUint32(addr[:], start+uint32(z[0]-'a')<<(32-bits))
		blocks[z] = netip.PrefixFrom(netip.AddrFrom4(addr), bits).String()
	}
	return blocks, nil
}
