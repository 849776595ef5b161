package localcell

import (
	"context"
	"fmt"

	"cellwall.dev/cellwall/internal/localcell/issuer"
	"cellwall.dev/cellwall/internal/localcell/loopback"
)

// RunIssuer is the issuer process: it publishes the issuer's key on the listener that it inherited, until ctx
// ends. Tokens are signed by the supervisor, as if tenants had logged in before the issuer went down.
func RunIssuer(ctx context.Context, d Dir) error {
	l, err := d.readLayout()
	if err != nil {
		return fmt.Errorf("the issuer's settings: %w", err)
	}
	listener, err := inheritListener(firstInherited)
	if err != nil {
		return err
	}
	i, err := d.issuer("http://"+listener.Addr().String(), l.Cells[0])
	if err != nil {
		return err
	}
	return loopback.Serve(ctx, listener, i.Public())
}

// issuer is the issuer of the cells in d, at its address.
func (d Dir) issuer(url string, p Plan) (*issuer.Issuer, error) {
	text, err := d.read(fileIssuerKey)
	if err != nil {
		return nil, fmt.Errorf("the issuer's key: %w", err)
	}
	key, err := issuer.ParseKey(text)
	if err != nil {
		return nil, err
	}
	return issuer.New(issuer.Settings{URL: url, Audience: p.Audience, Claim: p.Claim}, key)
}
