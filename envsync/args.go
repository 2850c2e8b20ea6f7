package envsync

import "strings"

// HideArgs returns args with the values of NAME=value, --name=value and --name
// value hidden where the name is that of a secret.
func HideArgs(args []string) []string {
	out := make([]string, len(args))
	next := false
	for i, a := range args {
		name, _, valued := strings.Cut(a, "=")
		secret := Hidden(secretName(name))
		switch {
		case next:
			out[i], next = hidden, false
		case secret && valued:
			out[i] = name + "=" + hidden
		default:
			out[i], next = a, secret && strings.HasPrefix(a, "-")
		}
	}
	return out
}

// secretName writes an argument's name as an environment variable would be. Tokens in
// the plural and tokenizers are no secrets.
func secretName(arg string) string {
	name := strings.ReplaceAll(strings.ToUpper(strings.Trim(arg, "- \t")), "-", "_")
	return strings.NewReplacer("TOKENIZER", "", "TOKENS", "").Replace(name)
}
