package stamp

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/jsii-runtime-go"

	"cellwall.dev/cellwall/internal/fleet"
	"cellwall.dev/cellwall/internal/fleet/names"
)

// buildCore fills the cell's core stack: what its shards share by design, and nothing else.
func buildCore(core awscdk.Stack, p *plan) {
	n := newNetwork(core, p)
	publishNetwork(core, p, n)
	for _, g := range p.groups {
		publishGroup(core, p, g, newGroup(core, p, n, g))
	}
	if p.fleet.Shard.State.Mode == fleet.StateCell {
		store := newTable(core, "Store", p.names.Store(), nil, nil)
		awscdk.Tags_Of(store).Add(str(names.TagRole), str("cell-store"), nil)
	}
	key, snapshots := newPlacementKey(core, p), newSnapshots(core, p.snapshotPlace())
	keeper := newKeeper(core, p, key, snapshots)
	router := newRouter(core, p, n, key, snapshots)
	newVerdicts(core, p, keeper)
	if p.fleet.Shard.Queue != nil {
		newDispatch(core, p, router)
	}
	if p.fleet.Router.Ingress == fleet.IngressURL {
		newURL(core, p, router)
	} else {
		newAPI(core, api{
			name: p.names.API(), about: "Ingress of cell " + p.cell.Name + " of " + p.fleet.Service, log: p.names.AccessLog(),
			auth: p.fleet.Auth, function: router})
	}
	createStateLast(core)
}

// newPlacementKey is the secret that turns tenants into subsets. It is generated in AWS and seen by
// the router and the keeper alone: {"1": "<64 hexadecimal digits>"}, version to key; topologies name the version. Losing it would move every
// tenant, so secret and encryption key stay when the stack goes. They do not stay when the stack's
// first deployment fails: the next one could not create a secret of the same name.
func newPlacementKey(core awscdk.Stack, p *plan) awssecretsmanager.Secret {
	key := awskms.NewKey(core, str("Encryption"), &awskms.KeyProps{
		Description:       str("Encrypts the placement key of cell " + p.cell.Name + " of " + p.fleet.Service),
		EnableKeyRotation: yes,
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
	})
	return awssecretsmanager.NewSecret(core, str("PlacementKey"), &awssecretsmanager.SecretProps{
		SecretName:    str(p.names.PlacementKey()),
		Description:   str("Placement keys of cell " + p.cell.Name + " of " + p.fleet.Service + ", by version"),
		EncryptionKey: key,
		RemovalPolicy: awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
		GenerateSecretString: &awssecretsmanager.SecretStringGenerator{
			SecretStringTemplate: str("{}"),
			GenerateStringKey:    str(p.names.KeyVersion(1)),
			PasswordLength:       jsii.Number(64), // 256 bits in hexadecimal digits
			ExcludeUppercase:     yes,
			ExcludePunctuation:   yes,
			ExcludeCharacters:    str("ghijklmnopqrstuvwxyz"),
			// A password of at least one digit and one letter is not quite a uniform one.
			RequireEachIncludedType: no,
		},
	})
}
