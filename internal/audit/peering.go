package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// peerings are the types that join networks, with the properties that name what they join. The hub of one that
// has it is what all attachments to it have in common.
var peerings = map[string]*struct {
	ends []string
	hub  string
}{
	"AWS::EC2::VPCPeeringConnection":                {ends: []string{"VpcId", "PeerVpcId"}},
	"AWS::EC2::TransitGatewayPeeringAttachment":     {ends: []string{"TransitGatewayId", "PeerTransitGatewayId"}},
	"AWS::EC2::TransitGatewayAttachment":            {ends: []string{"VpcId"}, hub: "TransitGatewayId"},
	"AWS::EC2::TransitGatewayVpcAttachment":         {ends: []string{"VpcId"}, hub: "TransitGatewayId"},
	"AWS::NetworkManager::VpcAttachment":            {ends: []string{"VpcArn"}, hub: "CoreNetworkId"},
	"AWS::VpcLattice::ServiceNetworkVpcAssociation": {ends: []string{"VpcIdentifier"}, hub: "ServiceNetworkIdentifier"},
}

// end is one end of a network path, or what is attached to a hub.
type end struct {
	node int32
	by   int32 // the peering
	at   string
}

// peers finds the peerings and hubs that join the networks of several cells.
func (b *builder) peers() []finding {
	joins := map[int32]map[place]end{} // by peering, or by hub
	join := func(at int32, cell place, e end) {
		if cell.Cell == "" {
			return
		}
		if joins[at] == nil {
			joins[at] = map[place]end{}
		}
		if _, ok := joins[at][cell]; !ok {
			joins[at][cell] = e
		}
	}
	networks := b.networks()
	for i := range int32(len(b.nodes)) {
		p := peerings[b.nodes[i].typ]
		if p == nil || b.nodes[i].kind != resourceNode {
			continue
		}
		at := []int32{i}
		if p.hub != "" {
			at = b.named(i, p.hub)
		}
		for _, hub := range at {
			known := false
			for _, property := range p.ends {
				for _, to := range b.named(i, property) {
					cell := b.cellOf(to)
					if cell.Cell == "" {
						cell = networks[to]
					}
					known = known || cell.Cell != ""
					join(hub, cell, end{to, i, property})
				}
			}
			if !known || p.hub == "" { // whose stack makes it takes part, too
				join(hub, b.cellOf(i), end{i, i, p.ends[0]})
			}
		}
	}
	var out []finding
	for _, at := range slices.Sorted(maps.Keys(joins)) {
		if len(joins[at]) < 2 {
			continue
		}
		f := finding{rule: &ruleCrossNetwork, level: Error, node: at}
		for _, cell := range slices.SortedFunc(maps.Keys(joins[at]), compareShards) {
			e := joins[at][cell]
			hops := []hop{{node: e.node}}
			for _, next := range []int32{e.by, at} {
				if hops[len(hops)-1].node != next {
					hops = append(hops, hop{node: next, edge: &edge{to: next, how: byAttachment, at: e.at}})
				}
			}
			f.paths = append(f.paths, b.witness(cell, hops))
		}
		n := &b.nodes[at]
		f.message = fmt.Sprintf("%s by %s %s", cellsOf(f.paths, "is joined", "are joined"), strings.ToLower(n.typ[strings.LastIndexByte(n.typ, ':')+1:]), quote(b.label(at)))
		out = append(out, f)
	}
	return out
}

// networks says of networks outside of what was read which one cell lives there.
func (b *builder) networks() map[int32]place {
	cells := map[int32]place{}
	for i := range int32(len(b.nodes)) {
		if peerings[b.nodes[i].typ] != nil {
			continue
		}
		for _, e := range b.out[i] {
			if n := &b.nodes[e.to]; n.kind != externalNode || n.typ != "AWS::EC2::VPC" {
				continue
			}
			cell := b.cellOf(i)
			if known, ok := cells[e.to]; ok && known != cell {
				cell = place{}
			}
			cells[e.to] = cell
		}
	}
	return cells
}
