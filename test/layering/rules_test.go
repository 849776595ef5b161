// Package layering holds the rule that imports only point down, as a test. The levels are those of
// the architecture: 1 pure packages, 2 the domain, 3 adapters, 4 entries, and the CDK app apart from
// them all.
package layering

import (
	"slices"
	"strings"
)

const module = "cellwall.dev/cellwall/"

// levels gives every package of the module its level, by the longest path here that is its own or its
// parent's. A package without a level is a fault: whoever adds one decides where it stands.
var levels = map[string]level{
	"internal/placement": pure,
	"internal/blast":     pure,
	"internal/wave":      pure,
	"internal/template":  pure,

	"internal/fleet":      domain,
	"internal/directory":  domain,
	"internal/routing":    domain,
	"internal/awsevent":   domain,
	"internal/identity":   domain,
	"internal/dircache":   domain,
	"internal/telemetry":  domain,
	"internal/snapshot":   domain,
	"internal/keeper":     domain,
	"internal/quarantine": domain,
	"internal/audit":      domain,
	"internal/change":     domain,
	"internal/rollout":    domain,
	"internal/move":       domain,
	"internal/drill":      domain,
	"internal/boltfile":   domain,
	"internal/boltpages":  domain,

	"internal/adapter": adapter,

	"internal/cli":       entry,
	"internal/handler":   entry,
	"internal/localcell": entry,
	"internal/routerenv": entry,
	"internal/sample":    entry,
	"internal/webui":     entry,
	"lambda":             entry,
	"cmd":                entry,

	"lambda/shardkit": public,
	"cdk":             cdk,
	"test":            tests,
}

type level string

const (
	pure    level = "1 (pure)"
	domain  level = "2 (domain)"
	adapter level = "3 (adapter)"
	entry   level = "4 (entry)"
	public  level = "public"
	cdk     level = "CDK app"
	tests   level = "tests"
	none    level = ""
)

// levelOf is the level of an import path of this module, and none for any other.
func levelOf(path string) level {
	rest, ok := strings.CutPrefix(path, module)
	for ok && rest != "" {
		if l := levels[rest]; l != none {
			return l
		}
		at := strings.LastIndexByte(rest, '/')
		rest = rest[:max(at, 0)]
	}
	return none
}

// seeded is the pure package that draws: from generators that start at a seed of its caller, and from
// nothing else, which TestSeededDrawsFromItsSeed looks after.
const seeded = module + "internal/blast"

// ban is one rule of who may not import what.
type ban struct {
	who    func(importer string) bool
	what   func(importer, imported string) bool
	deep   bool // what is imported through others counts too
	tests  bool // what the package's own tests import counts too
	reason string
}

// bans are all rules. Each stands alone: one import can break several.
var bans = map[string]ban{
	"level 1 imports the standard library and level 1": {
		who:    at(pure),
		what:   func(_, imported string) bool { return !standard(imported) && levelOf(imported) != pure },
		reason: "a pure package is understood, tested and trusted without anything else; a library would bring its own opinions and its own updates into what must never change",
	},
	"level 1 has no I/O, clock, context or random source": {
		who: at(pure),
		what: func(importer, imported string) bool {
			return under(imported, impure...) && !(importer == seeded && imported == "math/rand/v2")
		},
		reason: "equal arguments must give equal results in every process, or routers disagree about where a tenant is",
	},
	"level 2 imports levels 1 and 2 only": {
		who: at(domain),
		what: func(_, imported string) bool {
			return ours(imported) && !slices.Contains([]level{pure, domain}, levelOf(imported))
		},
		reason: "the domain says what it needs in interfaces of its own, so that AWS, one machine and a test can each give it",
	},
	"level 2 links no AWS SDK": {
		who:    at(domain),
		what:   func(_, imported string) bool { return under(imported, sdks...) },
		deep:   true,
		reason: "the same decisions run on one machine without an AWS account; an SDK belongs to an adapter",
	},
	"level 3 imports levels 1 and 2 only": {
		who: at(adapter),
		what: func(_, imported string) bool {
			return ours(imported) && !slices.Contains([]level{pure, domain, adapter, public}, levelOf(imported))
		},
		reason: "an adapter that knows who uses it cannot be used by anybody else; the kit is known for the store that it declares",
	},
	"adapters import no other adapter": {
		who: at(adapter),
		what: func(importer, imported string) bool {
			return levelOf(imported) == adapter && !under(imported, importer) && !under(importer, imported)
		},
		reason: "each adapts one service or store and can be replaced alone; entries put them together",
	},
	"level 4 imports no CDK app and no tests": {
		who:    at(entry),
		what:   func(_, imported string) bool { return slices.Contains([]level{cdk, tests}, levelOf(imported)) },
		reason: "entries stand at the top; what they share with another one lies below",
	},
	"lambda/shardkit links no adapter": {
		who:    at(public),
		what:   func(_, imported string) bool { return levelOf(imported) == adapter },
		deep:   true,
		reason: "a service that imports the kit chooses its store itself, and must not carry ours",
	},
	"the CDK app imports level 1, fleet and audit": {
		who: at(cdk),
		what: func(_, imported string) bool {
			return ours(imported) && levelOf(imported) != pure && levelOf(imported) != cdk &&
				!under(imported, module+"internal/fleet", module+"internal/audit")
		},
		reason: "what a template says follows from the fleet alone, never from how a request travels at run time",
	},
	"jsii is linked by the CDK app only": {
		who:    func(importer string) bool { return levelOf(importer) != cdk && levelOf(importer) != tests },
		what:   func(_, imported string) bool { return under(imported, jsii...) },
		deep:   true,
		tests:  true,
		reason: "it starts a Node.js process and takes minutes to compile: the command line must start in milliseconds, and a function's binary must be small and static",
	},
	"nothing imports the CDK app": {
		who:    func(importer string) bool { return levelOf(importer) != cdk },
		what:   func(_, imported string) bool { return levelOf(imported) == cdk },
		deep:   true,
		tests:  true,
		reason: "the app is run as a program, by the CDK CLI; everything else reads the assembly that it writes",
	},
}

// servicePrefix begins the path of each AWS service's client.
const servicePrefix = "github.com/aws/aws-sdk-go-v2/service/"

// services are the AWS services whose clients are among the imports, each once.
func services(imports []string) []string {
	var names []string
	for _, i := range imports {
		if rest, ok := strings.CutPrefix(i, servicePrefix); ok {
			name, _, _ := strings.Cut(rest, "/")
			if name == "dynamodbstreams" { // a table's changes, under a client of its own
				name = "dynamodb"
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// impure are the packages of the standard library that read or change the world. Their absence is a
// rule about direct imports: fmt imports os too, and is harmless.
var impure = []string{
	"context", "crypto/rand", "database", "io/ioutil", "log", "math/rand", "net", "os", "plugin", "syscall", "time",
}

var sdks = []string{"github.com/aws/aws-sdk-go", "github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-lambda-go", "github.com/aws/smithy-go"}

var jsii = []string{
	"github.com/aws/jsii-runtime-go", "github.com/aws/aws-cdk-go", "github.com/aws/constructs-go", "github.com/cdklabs",
}

func at(l level) func(string) bool {
	return func(importer string) bool { return levelOf(importer) == l }
}

func ours(path string) bool { return strings.HasPrefix(path+"/", module) }

// standard tells the standard library by its first path element, which has no dot.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// under tells whether path is one of the others, or lies below one.
func under(path string, others ...string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return path == o || strings.HasPrefix(path, o+"/") })
}
