package main

import (
	"cellwall.dev/cellwall/internal/adapter/tokenverify"
	"cellwall.dev/cellwall/internal/identity"
	"cellwall.dev/cellwall/internal/routerenv"
	"cellwall.dev/cellwall/internal/snapshot"
)

// callers tells who asks: by the fleet's source, and by a front door's word, whose token is verified here again.
// The issuer's keys come from the snapshot, too, so that a router that cannot reach the issuer verifies with them.
func callers(auth routerenv.Auth, held *snapshot.Holder) (identity.Source, error) {
	named := identity.Named{Source: auth.Source, Claim: auth.Claim, Principals: auth.Principals}
	if auth.Source != identity.SourceVerify && len(auth.FrontDoors) == 0 {
		return named.Open() // without tokens that are verified here
	}
	tokens, err := tokenverify.New(tokenverify.Config{
		Issuer: auth.Issuer, Audience: auth.Audience, Claim: auth.Claim, Algorithms: auth.Algorithms, Fallback: held.IssuerKeys,
	})
	if err != nil {
		return nil, err
	}
	named.Tokens = tokens
	source, err := named.Open()
	if err != nil || len(auth.FrontDoors) == 0 {
		return source, err
	}
	return identity.Behind(source, identity.FrontDoors{Roles: auth.FrontDoors, Tokens: tokens})
}
