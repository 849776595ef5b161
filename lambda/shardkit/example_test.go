package shardkit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

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
