package stamp

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"cellwall.dev/cellwall/internal/fleet"
)

// Arch is a processor architecture, by the name that Lambda and the fleet's amis use.
type Arch string

const (
	ARM64 Arch = "arm64"
	X86   Arch = "x86_64"
)

func (a Arch) check() error {
	if a != ARM64 && a != X86 {
		return fmt.Errorf("-c arch=%s: no such architecture; write %s or %s", a, ARM64, X86)
	}
	return nil
}

// machine is the architecture's number in the header of an ELF executable.
func (a Arch) machine() elf.Machine {
	if a == X86 {
		return elf.EM_X86_64
	}
	return elf.EM_AARCH64
}

// checkFunction refuses a Lambda asset that could only fail in the cell: absent, or built for another
// processor. shown is the folder as the user knows it.
func (in Input) checkFunction(shown, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "bootstrap")); err != nil {
		return missing(shown, "an executable named bootstrap", err)
	}
	return checkExecutable(filepath.Join(shown, "bootstrap"), filepath.Join(dir, "bootstrap"), in.Arch,
		"the functions' architecture (-c arch=arm64 or x86_64)")
}

// plainName is a file name that needs no quoting anywhere.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// checkService refuses an HTTP asset whose command the instances could not start.
func checkService(h fleet.HTTP, dir string, machine Arch) error {
	if !plainName.MatchString(h.Command) {
		return fmt.Errorf("shard.http.command %q: the instances start a file in %s; write its bare name", h.Command, h.Asset)
	}
	file := filepath.Join(dir, h.Command)
	info, err := os.Stat(file)
	if err != nil {
		return missing(h.Asset, "the service "+h.Command, err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file, so the instances could not start it: run chmod +x on it", filepath.Join(h.Asset, h.Command))
	}
	return checkExecutable(filepath.Join(h.Asset, h.Command), file, machine, "the architecture of shard.http.instanceType "+h.InstanceType)
}

// missing says that a built asset is not there.
func missing(shown, what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing or without %s: run make dist", shown, what)
	}
	return fmt.Errorf("%s cannot be read: %w", shown, err)
}

// checkExecutable refuses a binary for another processor. Scripts and other files pass: what runs
// them is the machine's business.
func checkExecutable(shown, file string, want Arch, because string) error {
	bin, err := elf.Open(file)
	if err != nil {
		var format *elf.FormatError
		if errors.As(err, &format) {
			return nil
		}
		return fmt.Errorf("%s cannot be read: %w", shown, err)
	}
	defer bin.Close()
	if bin.Machine != want.machine() {
		return fmt.Errorf("%s is built for %s, but %s is %s: run make dist for that one", shown, bin.Machine, because, want)
	}
	return nil
}

// environmentLimit is the most that the variables of a function may take, names and values together,
// in bytes (AWS Lambda quotas).
const environmentLimit = 4096

// elbNameLimit is the longest name of a load balancer or target group, in characters.
const elbNameLimit = 32

// check refuses what AWS would refuse only during the deployment.
func (p *plan) check() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("cell %s: "+format, append([]any{p.cell.Name}, args...)...))
	}
	if p.cell.Name == globalStackID {
		fault("the name %s is the global stack's; choose another", globalStackID)
	}
	if p.cell.VPC == nil {
		if _, err := subnetBlocks(p.cell.CIDR, p.cell.Zones); err != nil {
			fault("%w", err)
		}
		if r := p.directoryRegion(); r != p.cell.Region {
			fault("its own network reaches no other region, but the directory is in %s: add %s to directory.replicas, or give the cell a vpc with a way out",
				r, p.cell.Region)
		}
	}
	if p.service != nil && p.service.ami == "" {
		fault("no image is pinned for its instances: add %s/%s to shard.http.amis", p.cell.Region, p.service.arch)
	}
	if n := environmentSize(p.routerEnv); n > environmentLimit {
		fault("the router's environment takes %d bytes of Lambda's %d: shorten the routes or the list of shards", n, environmentLimit)
	}
	for _, name := range p.elbNames() {
		if len(name) > elbNameLimit {
			fault("the load balancer or target group name %s is longer than %d characters", name, elbNameLimit)
		}
	}
	return errors.Join(faults...)
}

func environmentSize(env map[string]string) int {
	n := 0
	for k, v := range env {
		n += len(k) + len(v)
	}
	return n
}

// elbNames are the names of the cell's load balancers and target groups.
func (p *plan) elbNames() []string {
	if p.service == nil {
		return nil
	}
	var all []string
	for _, g := range p.groups {
		all = append(all, p.names.GroupLoadBalancer(g))
	}
	for _, s := range p.shards {
		all = append(all, s.names.TargetGroup(), s.names.LoadBalancer())
	}
	return all
}

// zoneRoom is the number of zones, a to h, that a cell's network has room for. No region has more
// than six today.
const zoneRoom = 8

// subnetBlocks cuts a network into a block per zone. A zone's letter alone says which block is its
// own, so that zones come, go and change order without moving another's subnet. Only the lower half
// of the network is used: the upper half stays free for subnets of another kind.
func subnetBlocks(cidr string, zones []string) (map[string]string, error) {
	network, err := netip.ParsePrefix(cidr)
	if err != nil || !network.Addr().Is4() || network.Masked() != network {
		return nil, fmt.Errorf("cidr %q is not an IPv4 network; write one such as 10.20.0.0/16", cidr)
	}
	bits := network.Bits() + 4 // 16 blocks, of which zoneRoom are the zones'
	// AWS takes networks of /16 to /28; a load balancer wants subnets of /27 or larger.
	if network.Bits() < 16 || bits > 27 {
		return nil, fmt.Errorf("cidr %q: a cell needs a network of /16 to /23, which leaves each zone a subnet that a load balancer accepts", cidr)
	}
	base := network.Addr().As4()
	start := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	blocks := make(map[string]string, len(zones))
	for _, z := range zones {
		if len(z) != 1 || z[0] < 'a' || z[0] >= 'a'+zoneRoom {
			return nil, fmt.Errorf("zone %q: write a letter from a to %c", z, 'a'+zoneRoom-1)
		}
		at := start + uint32(z[0]-'a')<<(32-bits)
		addr := netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)})
		blocks[z] = netip.PrefixFrom(addr, bits).String()
	}
	return blocks, nil
}

// sortedKeys are a map's keys in order: nothing here may depend on the order of a map.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// envLines is an environment as sorted NAME=value lines.
func envLines(env map[string]string) string {
	var b strings.Builder
	for _, k := range sortedKeys(env) {
		fmt.Fprintf(&b, "%s=%s\n", k, env[k])
	}
	return b.String()
}

// variables is an environment as the CDK takes it.
func variables(env map[string]string) *map[string]*string {
	out := make(map[string]*string, len(env))
	for k, v := range env {
		out[k] = str(v)
	}
	return &out
}
