package shardkit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"time"

	"cellwall.dev/cellwall/lambda/shardkit"
)

// A service takes payments, which nobody wants to make twice. It says nothing of epochs, records or repeats.
func Example() {
	pay := func(w http.ResponseWriter, r *http.Request) {
		tenant := shardkit.From(r.Context())
		amount, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		payments, err := tenant.List(r.Context(), "PAYMENT#")
		if err != nil {
			shardkit.Fail(w, err)
			return
		}
		id := fmt.Sprint(len(payments) + 1)
		answer := shardkit.Answer{
			Status: http.StatusCreated,
			Header: http.Header{"Location": {"/payments/" + id}},
			Body:   []byte("paid " + string(amount)),
		}
		// Absent: of two payments at once that found the same number free, one is told to try again.
		payment := shardkit.Write{Key: "PAYMENT#" + id, Value: amount, Absent: true}
		if err := tenant.Commit(r.Context(), w, answer, payment); err != nil {
			shardkit.Fail(w, err)
		}
	}

	items := shardkit.NewMemory() // a real shard's are in its table
	items.Hold("acme", 4)         // which is not the service's task
	guard, err := shardkit.NewGuard(shardkit.Config{Shard: "s01", Items: items})
	if err != nil {
		panic(err)
	}
	http.Handle("/payments", guard.Wrap(http.HandlerFunc(pay)))

	// What the router sends.
	send := func(key, amount string) {
		r := httptest.NewRequest("POST", "/payments", strings.NewReader(amount))
		r.Header.Set(shardkit.HeaderTenant, "acme")
		r.Header.Set(shardkit.HeaderEpoch, "4")
		r.Header.Set(shardkit.HeaderShard, "s01")
		r.Header.Set(shardkit.HeaderIdempotencyKey, key)
		w := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(w, r)
		fmt.Printf("%d %q again: %t\n", w.Code, w.Header().Get("Location"), w.Header().Get(shardkit.HeaderReplayed) == "true")
	}
	send(`"a"`, "10 EUR")
	send(`"a"`, "10 EUR") // the answer was lost
	send(`"a"`, "20 EUR") // the key is another payment's
	send(`"b"`, "10 EUR")
	// Output:
	// 201 "/payments/1" again: false
	// 201 "/payments/1" again: true
	// 422 "" again: false
	// 201 "/payments/2" again: false
}

// A name in a bucket that all tenants share.
func ExampleName() {
	for _, tenant := range []string{"acme", "acme/../beta", "Ärzte"} {
		name, err := shardkit.Name(tenant, "invoices", "2026/03.pdf")
		fmt.Println(name, err)
	}
	// Output:
	// tenants/acme/invoices/2026%2F03.pdf <nil>
	// tenants/acme%2F..%2Fbeta/invoices/2026%2F03.pdf <nil>
	// tenants/%C3%84rzte/invoices/2026%2F03.pdf <nil>
}

// What a schedule of the fleet named "report" has each shard do: a job for each tenant that asked for it, which takes
// effect once though the tick comes twice.
func ExampleGuard_Ticks() {
	var jobs []string
	guard, err := shardkit.NewGuard(shardkit.Config{
		Shard: "s01", Items: shardkit.NewMemory(),
		Dispatch: func(_ context.Context, j shardkit.Job) error { // a real shard's puts it into the dispatch queue
			if !slices.Contains(jobs, j.ID) {
				jobs = append(jobs, j.ID)
				fmt.Println(j.Method, path.Dir(j.Path), "for", j.Tenant)
			}
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	report := func(ctx context.Context, t shardkit.Tick) error {
		for _, tenant := range []string{"acme", "beta"} {
			// Of Due, and not of the clock: the message is the same when the tick comes again.
			if _, err := t.Send(ctx, tenant, shardkit.Message{Path: "/reports/" + t.Due.Format("2006-01-02")}); err != nil {
				return err
			}
		}
		return nil
	}
	consumer, err := shardkit.NewConsumer(shardkit.Consumption{Service: guard.Ticks(report)})
	if err != nil {
		panic(err)
	}
	due := time.Now().UTC().Truncate(24 * time.Hour)
	for range 2 {
		if err := consumer.Tick(context.Background(), shardkit.Tick{Name: "report", Shard: "s01", Every: 24 * time.Hour, Due: due}); err != nil {
			panic(err)
		}
	}
	fmt.Println(len(jobs), "jobs")
	// Output:
	// POST /reports for acme
	// POST /reports for beta
	// 2 jobs
}
