package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxTargetGroups is how many target groups one Application Load Balancer has at most (Elastic Load
// Balancing quotas, "Target Groups per Application Load Balancer", not adjustable).
const maxTargetGroups = 100

// minConsumers is the lowest maximum concurrency of an SQS event source (AWS Lambda, "Configuring
// maximum concurrency for Amazon SQS event sources").
const minConsumers = 2

// parts sees that the shard's parts fit each other.
func (c *checker) parts() {
	s := c.f.Shard
	if !c.set("shard") || c.bad["shard"] {
		return
	}
	if !c.set("shard.lambda") && !c.set("shard.http") {
		c.wrong("shard", "shard has neither lambda nor http", "something must serve the requests", "add a lambda or an http block")
	}
	if c.set("shard.queue") && !c.set("shard.lambda") {
		c.wrong("shard.queue", "shard.queue has no consumer", "the Lambda slice consumes the queue", "add a lambda block, or remove the queue")
	}
	fix := fmt.Sprintf("reserve at least %d", minConsumers+1)
	if s.Lambda != nil && s.Lambda.ReservedConcurrency > minConsumers {
		fix = fmt.Sprintf("write at most %d, or reserve more", s.Lambda.ReservedConcurrency-1)
	}
	if s.Queue != nil && s.Lambda != nil && c.known("shard.queue.consumers", "shard.lambda.reservedConcurrency") && s.Queue.Consumers >= s.Lambda.ReservedConcurrency {
		c.wrong("shard.queue.consumers", fmt.Sprintf("shard.queue.consumers is %d", s.Queue.Consumers),
			fmt.Sprintf("with shard.lambda.reservedConcurrency = %d the queue would leave no concurrency to requests", s.Lambda.ReservedConcurrency),
			fix)
	}
	if c.known("shard.state") && s.State.Mode == StateHome && !c.set("shard.table") {
		c.wrong("shard.state.mode", `shard.state.mode is "home"`, "each key lives in one shard's own table, and shards have none", "add table: {} to the shard, or write mode: cell or none")
	}
}

// http sees to the Auto Scaling group and to the shape of the ingress.
func (c *checker) http() {
	h := c.f.Shard.HTTP
	if h == nil || c.bad["shard.http"] {
		return
	}
	if c.known("shard.http.min", "shard.http.max") && h.Min > h.Max {
		c.wrong("shard.http.max", fmt.Sprintf("shard.http.max is %d", h.Max), fmt.Sprintf("it is less than shard.http.min = %d", h.Min), fmt.Sprintf("write at least %d", h.Min))
	}
	if !c.set("shard.http.command") && c.known("shard.http.asset") && !shapes["command"].pattern.MatchString(h.Command) {
		c.wrong("shard.http.asset", fmt.Sprintf("shard.http.asset is %s", quote(h.Asset)),
			fmt.Sprintf("its base name %s is no file that systemd could start", quote(h.Command)), "add command: with the name of the file in the asset")
	}
	missing := map[string]bool{}
	for i, cell := range c.f.Cells {
		key := cell.Region + "/" + h.Architecture()
		if c.known("shard.http.instanceType", cellPath(i, "region")) && !c.unpinned && !missing[key] && c.noImage(key) {
			missing[key] = true
			c.wrong("shard.http.amis", fmt.Sprintf("shard.http.amis has no %s", key),
				fmt.Sprintf("cell %s starts %s there, and images are pinned", c.called(i), h.InstanceType), fmt.Sprintf("add %s: ami-…, or have cellwall fleet pin-ami write the current ones", key))
		}
		if c.counted(i) && c.known("shard.http.ingress") {
			c.ingress(i, h.Ingress)
		}
		if c.known(cellPath(i, "zones")) && len(cell.Zones) == 1 {
			c.wrong(cellPath(i, "zones"), fmt.Sprintf("%s has one zone", cellPath(i, "zones")), "the load balancers of shard.http want two", "add a zone, or remove shard.http")
		}
	}
}

// noImage tells whether shard.http.amis surely lacks an image for the key: none is written under it, not
// even a malformed one, and no key that has a fault of its own is likely to mean it.
func (c *checker) noImage(key string) bool {
	const path = "shard.http.amis"
	if !c.decoded(path) {
		return false
	}
	for written := range c.f.Shard.HTTP.AMIs {
		meant := strings.HasPrefix(key, written) || nearest(written, []string{key}) != ""
		if written == key || c.badKey[join(path, written)] && meant {
			return false
		}
	}
	return true
}

// ingress sees that the shards of a cell fit behind its load balancers.
func (c *checker) ingress(i int, in Ingress) {
	cell := c.f.Cells[i]
	n := len(cell.Shards)
	switch {
	case in.Kind == IngressShared && n > maxTargetGroups:
		c.wrong("shard.http.ingress", fmt.Sprintf("shard.http.ingress is %q", in), fmt.Sprintf("cell %s has %d shards, and one load balancer takes %d target groups", c.called(i), n, maxTargetGroups),
			"write per-shard, or split the cell")
	case in.Kind == IngressGrouped && n > 0 && n%in.Group != 0:
		fix := "write per-shard or shared, or change the numbers of shards"
		if sizes := c.groupSizes(); len(sizes) > 0 {
			fix = fmt.Sprintf("write %s, or per-shard or shared", alternatives(sizes))
		}
		c.wrong("shard.http.ingress.grouped", fmt.Sprintf("shard.http.ingress is %s", in), fmt.Sprintf("%d does not divide the %d %s of cell %s", in.Group, n, plural(n, "shard"), c.called(i)), fix)
	}
}

// groupSizes lists the sizes of groups that divide the shards of every cell.
func (c *checker) groupSizes() []string {
	var sizes []string
	for m := 2; m <= maxTargetGroups; m++ {
		if !slices.ContainsFunc(c.f.Cells, func(cell Cell) bool { return len(cell.Shards)%m != 0 }) {
			sizes = append(sizes, strconv.Itoa(m))
		}
	}
	return sizes
}

// routes sees that every route leads to a part that shards have, and that a request can reach it.
func (c *checker) routes() {
	has := map[string]bool{ViaLambda: c.set("shard.lambda"), ViaHTTP: c.set("shard.http"), ViaQueue: c.set("shard.queue")}
	var on []string
	for _, via := range []string{ViaLambda, ViaHTTP, ViaQueue} {
		if has[via] {
			on = append(on, via)
		}
	}
	for i, r := range c.f.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		if !c.set(path) {
			return // the default
		}
		if c.known(path+".via") && c.set("shard") && len(on) > 0 && !has[r.Via] {
			c.wrong(path+".via", fmt.Sprintf("%s.via is %s", path, quote(r.Via)), fmt.Sprintf("shards have no %s block", r.Via), fmt.Sprintf("write %s, or add the block", alternatives(on)))
		}
		if c.known(path+".via") && r.Fanout && r.Via == ViaQueue {
			c.wrong(path+".fanout", path+".fanout is true", "a queue gives no answers to gather", "remove fanout, or use another transport")
		}
		if !c.known(path + ".path") {
			continue
		}
		if at := strings.IndexAny(r.Path, "*?#"); at >= 0 && (r.Path[at] != '*' || at != len(r.Path)-1 || r.Path[at-1] != '/') {
			c.wrong(path+".path", fmt.Sprintf("%s.path is %s", path, quote(r.Path)), "a star stands at the end only, after a slash, and queries are not matched",
				"write "+quote(strings.TrimRight(r.Path[:at], "/")+"/*"))
			continue
		}
		earlier := c.f.Routes[:i]
		if j := slices.IndexFunc(earlier, func(e Route) bool { return e.covers(r) }); j >= 0 && c.known(fmt.Sprintf("routes[%d].path", j), fmt.Sprintf("routes[%d].via", j)) {
			fix := fmt.Sprintf("move it before routes[%d], or remove it", j)
			if earlier[j].Path == r.Path {
				fix = "remove one of the two"
			}
			c.wrong(path+".path", fmt.Sprintf("%s.path is %s", path, quote(r.Path)),
				fmt.Sprintf("routes[%d] (%s) takes all of it, since the first match wins", j, earlier[j].Path), fix)
		}
	}
}

// covers tells whether every request that other takes is taken by r. A queue leaves to later routes those
// that only ask, and a route with fanout all that are no GET.
func (r Route) covers(other Route) bool {
	if r.Via == ViaQueue && (other.Via != ViaQueue || other.Fanout) || r.Fanout && !other.Fanout {
		return false
	}
	prefix, star := strings.CutSuffix(r.Path, "*")
	return r.Path == other.Path || star && strings.HasSuffix(prefix, "/") && strings.HasPrefix(other.Path, prefix)
}
