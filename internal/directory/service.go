package directory

import (
	"context"
	"errors"
	"fmt"
)

// ErrService means that the directory is another service's.
var ErrService = errors.New("the directory belongs to another service")

var serviceKey = Key{"META", "SERVICE"}

type owner struct {
	Service string `json:"service"`
}

// Claim has the directory remember the service whose tenants it has, when it knows none yet. ErrService when
// it is another's; that is never changed.
func (d *Directory) Claim(ctx context.Context, service string, c Change) error {
	fail := func(err error) error { return fmt.Errorf("claim the directory for service %q: %w", service, err) }
	if service == "" {
		return fail(fmt.Errorf("%w: it has no name", ErrInvalid))
	}
	known, err := d.owner(ctx)
	if err != nil {
		return fail(err)
	}
	if known == "" {
		if err := d.mark(ctx, c); err != nil {
			return fail(err)
		}
		err := d.write(ctx, Batch{c.Operation, []Op{Put(serviceKey, 0, encode(owner{service}))}})
		if conflict := (*Conflict)(nil); err != nil && !errors.As(err, &conflict) {
			return fail(err)
		}
	}
	return d.OfService(ctx, service) // another may have been first
}

// OfService refuses another service than the one whose the directory is, with ErrService. One that was never
// claimed is anybody's.
func (d *Directory) OfService(ctx context.Context, service string) error {
	known, err := d.owner(ctx)
	if err != nil {
		return err
	}
	if known != "" && known != service {
		return fmt.Errorf("%w: it is %q's, and not %q's", ErrService, known, service)
	}
	return nil
}

// owner is the service whose the directory is, "" when that was never said.
func (d *Directory) owner(ctx context.Context) (string, error) {
	r, err := d.read(ctx, Strong, serviceKey)
	if err != nil || r.Version == 0 {
		return "", err
	}
	var o owner
	err = decode(r, &o)
	return o.Service, err
}
