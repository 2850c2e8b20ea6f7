package main

import (
	"slices"
	"testing"

	"gorun/preflight"
)

// Who did not ask for a preflight must learn how to do without it.
func TestNoGoHints(t *testing.T) {
	const off, drop = "--preflight off starts the job all the same", "--drop-bad goes on without b"
	tests := []struct {
		name    string
		options preflightOptions
		verdict string
		want    []string
	}{
		{"not-asked", preflightOptions{}, preflight.NoGo, []string{off}},
		{"a-host-is-bad", preflightOptions{}, preflight.NoGoUnless, []string{drop, off}},
		{"what-off-excludes", preflightOptions{minHosts: 3}, preflight.NoGo, nil},
		{"spares", preflightOptions{spares: 1}, preflight.NoGoUnless, []string{drop}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := page{decision: preflight.Decision{Verdict: tt.verdict, Exclude: []string{"b"}}}
			if got := noGoReport(p, options{preflight: tt.options}).hints; !slices.Equal(got, tt.want) {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}
