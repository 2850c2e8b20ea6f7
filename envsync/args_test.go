package envsync

import (
	"slices"
	"strings"
	"testing"
)

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
