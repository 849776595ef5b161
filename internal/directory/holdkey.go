package directory

// famHolding is the family of a Holding in DynamoDB:
//
//	TENANT#<id>    HOLDS            in the shard's own table
//	TENANT#<id>    HOLDS#<shard>    in the cell's store, where shards have no table
const famHolding = "HOLDS"

// Attributes of a Holding in DynamoDB, numbers, of which an item has one. What is left of a Holding that is over
// has no epoch, so that no condition on it holds.
const (
	HoldingEpoch = "epoch" // since which the shard holds the tenant
	HoldingGone  = "gone"  // up to which it let go of the tenant
)

// TenantPartition is the partition key of whatever a table keeps of one tenant.
func TenantPartition(tenant string) string { return tenantPart + tenant }

// HoldingKey is the key of a Holding in the shard's own table.
func HoldingKey(tenant string) Key { return Key{tenantPart + tenant, famHolding} }

// SharedHoldingKey is the key of a shard's Holding in the store of its cell, for shards without a table.
func SharedHoldingKey(tenant, shard string) Key {
	return Key{tenantPart + tenant, famHolding + "#" + shard}
}
