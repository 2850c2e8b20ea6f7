package envsync

import (
	"slices"
	"strings"
	"testing"
)

func TestConceal(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"none":       {"LR=0.1", "LR=0.1"},
		"empty":      {"", ""},
		"name":       {"API_KEY", "API_KEY"},
		"pattern":    {"API_KEY*", "API_KEY*"},
		"value":      {"API_KEY=hunter2", "API_KEY=<hidden>"},
		"blank":      {"API_KEY =hunter2", "API_KEY <hidden>"},
		"tab":        {"API_KEY\t=hunter2", "API_KEY\t<hidden>"},
		"glob":       {"API_KEY* =hunter2", "API_KEY*<hidden>"},
		"second":     {"A,API_KEY=hunter2", "A,API_KEY=<hidden>"},
		"flag":       {"--api-key:hunter2", "--api-key:<hidden>"},
		"lower-case": {"my_password/hunter2", "my_password/<hidden>"},
		"no-utf-8":   {"API_KEY\xffhunter2", "API_KEY\xff<hidden>"},
		"value-only": {"a=SECRET", "a=SECRET"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Conceal(tt.text); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// A blank that belongs elsewhere is no reason to show a secret.
func TestHideArgsWithBlanks(t *testing.T) {
	got := HideArgs([]string{"app", "API_KEY =hunter2", "--token ", "hunter2"})
	if want := []string{"app", "API_KEY =<hidden>", "--token ", "<hidden>"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestHideArgs(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"none":        {"python3 train.py --lr 0.1 -v", "python3 train.py --lr 0.1 -v"},
		"assignment":  {"env API_TOKEN=abc app", "env API_TOKEN=<hidden> app"},
		"flag":        {"app --api-key=abc --name=x", "app --api-key=<hidden> --name=x"},
		"next-word":   {"app --password hunter2 more", "app --password <hidden> more"},
		"tokenizer":   {"app --tokenizer gpt2 --max-tokens 5 --tokenizer-token t", "app --tokenizer gpt2 --max-tokens 5 --tokenizer-token <hidden>"},
		"last":        {"app --token", "app --token"},
		"lower-case":  {"app secret=1", "app secret=<hidden>"},
		"value-only":  {"app a=SECRET", "app a=SECRET"},
		"bare-word":   {"app token abc", "app token abc"},
		"after-value": {"app --token=a b", "app --token=<hidden> b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(tt.args)
			if got := strings.Join(HideArgs(args), " "); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			if !slices.Equal(args, strings.Fields(tt.args)) {
				t.Errorf("the arguments were changed: %q", args)
			}
		})
	}
}
