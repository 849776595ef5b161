package first

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// TestClient: the configuration is loaded, and the client made, when they are first asked for, and once.
func TestClient(t *testing.T) {
	loads, makes := 0, 0
	client := Client(func() (aws.Config, error) { loads++; return aws.Config{Region: "eu-west-1"}, nil },
		func(c aws.Config) string { makes++; return c.Region })
	if loads+makes > 0 {
		t.Error("something was made before it was asked for")
	}
	for range 2 {
		if got, err := client(); got != "eu-west-1" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if loads != 1 || makes != 1 {
		t.Errorf("loaded %d times and made %d times, want once", loads, makes)
	}
	why := errors.New("no configuration")
	broken := Client(func() (aws.Config, error) { return aws.Config{}, why }, func(aws.Config) string { t.Error("made"); return "" })
	if _, err := broken(); !errors.Is(err, why) {
		t.Errorf("got %v, want why", err)
	}
}

// TestSettings: the environment is read when the settings are first asked for, and once.
func TestSettings(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", "")
	settings := Settings()
	for _, region := range []string{"eu-west-1", "us-east-1"} {
		t.Setenv("AWS_REGION", region)
		if c, err := settings(); err != nil || c.Region != "eu-west-1" {
			t.Errorf("region %q, %v", c.Region, err)
		}
	}
}
