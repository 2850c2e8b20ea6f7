package main

import (
	"errors"
	"strings"
	"testing"

	"gorun/launcher"
)

func TestParseMesh(t *testing.T) {
	for _, tt := range []struct{ name, in, want, err string }{
		{"three-axes", "dp=4,pp=2,tp=8", "dp=4,pp=2,tp=8", ""},
		{"one-axis", "tp=8", "tp=8", ""},
		{"letters-without-case", "DP=4,Tp=8", "dp=4,tp=8", ""},
		{"star", "dp=*,tp=8", "dp=*,tp=8", ""},
		{"minus-one", "dp=-1,tp=8", "dp=*,tp=8", ""},
		{"no-size", "dp,tp=8", "dp=*,tp=8", ""},
		{"blanks", "dp = 4, tp = 8", "dp=4,tp=8", ""},
		{"no-sign", "dp4,tp2", "", `"dp4" is no axis: a = belongs before its size`},
		{"one-sign-of-two", "dp=4,tp2", "", `"tp2" is no axis: a = belongs before its size`},
		{"names-with-digits", "d2=4", "d2=4", ""},
		{"largest", "dp=65536,tp=1", "dp=65536,tp=1", ""},
		{"empty", "", "", `"": an axis needs a name`},
		{"no-name", "=4", "", `"=4": an axis needs a name`},
		{"last-missing", "dp=4,", "", `"": an axis needs a name`},
		{"digit-first", "4dp=4", "", `"4dp" is no name of an axis: it has at most 16 letters and digits, a letter first`},
		{"underscore", "cpus_per=2", "", `"cpus_per" is no name of an axis: it has at most 16 letters and digits, a letter first`},
		{"other-letters", "süd=2", "", `"süd" is no name of an axis: it has at most 16 letters and digits, a letter first`},
		{"long", "abcdefghijklmnopq=2", "", `"abcdefghijklmnopq" is no name of an axis: it has at most 16 letters and digits, a letter first`},
		{"local", "local=2", "", "an axis cannot be called local: GORUN_LOCAL_RANK is something else"},
		{"node", "NODE=2", "", "an axis cannot be called node: GORUN_NODE_RANK is something else"},
		{"zero", "tp=0", "", `"0" is no size of an axis`},
		{"negative", "tp=-2", "", `"-2" is no size of an axis`},
		{"no-number", "tp=two", "", `"two" is no size of an axis`},
		{"no-value", "tp=", "", `"" is no size of an axis`},
		{"twice", "tp=2,TP=2", "", "the axis tp is there twice"},
		{"two-stars", "dp=*,tp", "", "tp: only one axis can be as many as fit"},
		{"too-many-ranks", "dp=65536,tp=2", "", "tp=2: a job has at most 65536 ranks"},
		{"too-large", "dp=99999999999999999999", "", `"99999999999999999999" is no size of an axis`},
		{"too-many-axes", "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "", "a mesh has at most 8 axes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseMesh(tt.in)
			if err != nil && err.Error() != tt.err || err == nil && tt.err != "" || got != tt.want {
				t.Errorf("got %q, %v; want %q, %s", got, err, tt.want, tt.err)
			}
		})
	}
}

// A mesh of which only the signs are wrong is written anew, whole.
func TestMeshHint(t *testing.T) {
	for in, want := range map[string]string{
		"dp4,tp2":         "did you mean --mesh dp=4,tp=2?",
		"dp4":             "did you mean --mesh dp=4?",
		"dp=4,TP2":        "did you mean --mesh dp=4,TP=2?",
		"dp:4,pp-2, tp_8": "did you mean --mesh dp=4,pp=2,tp=8?",
		"dp*,tp8":         "did you mean --mesh 'dp=*,tp=8'?",
		"dp4,dp2":         meshHint, // no mesh with signs, either
		"local4":          meshHint,
		"4dp":             meshHint,
	} {
		_, err := parseMesh(in)
		e, ok := errors.AsType[*usageError](err)
		if !ok || len(e.hints) != 1 || e.hints[0] != want {
			t.Errorf("%s: got %+v; want the hint %q", in, err, want)
		}
	}
}

// A mesh is read as it was written, and has no more ranks than a job may.
func FuzzParseMesh(f *testing.F) {
	for _, s := range []string{"dp=4,pp=2,tp=8", "dp=*,tp=8", "dp,tp=8", "dp=-1", "a=1,b=2,c=3,d=4", "tp=0", "dp4,tp2", "dp:4", "dp*", ",", "=", "local=1", "dp=65536,tp=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseMesh(s)
		if err != nil {
			if _, ok := errors.AsType[*usageError](err); !ok {
				t.Fatalf("got %T", err)
			}
			return
		}
		m := meshOf(got)
		if m.String() != got || m.Multiple() < 1 || m.Multiple() > launcher.MaxRanks || len(m) > maxAxes {
			t.Fatalf("got %q of %q, which is %v", got, s, m)
		}
		if again, err := parseMesh(got); err != nil || again != got || strings.ContainsAny(got, " \n") {
			t.Fatalf("got %q, and of that %q, %v", got, again, err)
		}
	})
}
