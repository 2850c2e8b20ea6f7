package facts

import "testing"

func BenchmarkParseSMI(b *testing.B) {
	text := report(b, "h100-sxm-550.xml")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := parseSMI(text); err != nil {
			b.Fatal(err)
		}
	}
}
