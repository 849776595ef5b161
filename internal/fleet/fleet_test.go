package fleet

import "testing"

func TestSamplesLoad(t *testing.T) {
	for _, file := range []string{"../../fleet.yaml", "testdata/design.yaml"} {
		if _, err := Load(file); err != nil {
			t.Errorf("Load(%s):\n%v", file, err)
		}
	}
}
