package blast

// TenantClass is tenants that have equally many shards each.
type TenantClass struct {
	PerTenant int
	Tenants   int
	Load      float64 // of all of them together
	Largest   float64 // of one of them
}

// Hopeless tells a line of the budget that n shards break however these tenants are placed on them, and false when
// there is none. It needs no placement: over all failures of ConcurrentFailures shards the mean of what is lost
// comes from the sizes of the subsets alone, the mean load of the shards that are left, too, and no failure that is
// worst is better than the mean. A tenant whose load is too much for the shards that it keeps is hopeless with any
// n. Each size is 1 to n, and n more than the failures; others of the cell's tenants may be left out, with all
// counting those, too. A capacity of 0 is not known. A line that is broken stays so with fewer shards.
func (b LossBudget) Hopeless(n, all int, capacity float64, classes []TenantClass) (BudgetLine, bool) {
	f := b.ConcurrentFailures
	degraded, down, served := 0.0, 0.0, 0.0
	for _, c := range classes {
		if exceeds(float64(min(f, c.PerTenant))/float64(c.PerTenant), b.CapacityLoss) {
			return LineCapacityLoss, true
		}
		if capacity > 0 && overloaded(c.Largest/float64(max(1, c.PerTenant-f)), capacity) {
			return LineCapacity, true
		}
		gone := exactFloat(exactMiss(n, c.PerTenant, n-f))
		degraded += float64(c.Tenants) * (1 - exactFloat(exactMiss(n, f, c.PerTenant)))
		down += float64(c.Tenants) * gone
		served += c.Load * (1 - gone)
	}
	const rounding = 1 - 1e-9
	switch {
	case exceeds(degraded/float64(all)*rounding, b.DegradedTenants):
		return LineDegradedTenants, true
	case exceeds(down/float64(all)*rounding, b.FullyDown):
		return LineFullyDown, true
	case capacity > 0 && overloaded(served/float64(n-f)*rounding, capacity):
		return LineCapacity, true
	}
	return "", false
}
