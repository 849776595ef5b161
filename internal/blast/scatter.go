package blast

import (
	"fmt"
	"math"
)

// ScatterSlow is the chance that a request which asks a number of shards and waits for all meets at
// least one slow answer, where each answer is slow with the given chance, independently: 1-(1-p)^n.
// With 50 shards and answers beyond the 99th percentile, p = 0.01, it is 39.5 %. ErrModel for less
// than one shard, more than MaxShards, or a chance outside 0 to 1.
//
// Source: J. Dean and L. A. Barroso, "The tail at scale", CACM 56(2), 2013.
func ScatterSlow(shards int, slow float64) (float64, error) {
	if err := scatterCheck(shards, slow); err != nil {
		return 0, err
	}
	return -math.Expm1(float64(shards) * math.Log1p(-slow)), nil
}

// ScatterTail is the chance of a slow answer that each shard may have, for a request that asks a
// number of them to be slow with no more than the given chance: 1-(1-p)^(1/n). For 50 shards and 1 %
// it is 0.02 %, so each shard must answer in time up to its 99.98th percentile. Errors as in
// ScatterSlow.
func ScatterTail(shards int, slow float64) (float64, error) {
	if err := scatterCheck(shards, slow); err != nil {
		return 0, err
	}
	return -math.Expm1(math.Log1p(-slow) / float64(shards)), nil
}

func scatterCheck(shards int, slow float64) error {
	if shards < 1 || shards > MaxShards {
		return fmt.Errorf("%w: a request that asks %d shards, want 1 to %d", ErrModel, shards, MaxShards)
	}
	if !(slow >= 0 && slow <= 1) {
		return fmt.Errorf("%w: a chance of %v for a slow answer, want 0 to 1", ErrModel, slow)
	}
	return nil
}
