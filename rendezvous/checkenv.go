package rendezvous

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorun/envsync"
)

// EnvStore is the part of *Client by which ranks compare their environments.
type EnvStore interface {
	Put(ctx context.Context, key string, value []byte) error
	Try(ctx context.Context, key string) (value []byte, ok bool, err error)
}

// EnvError says that two ranks have different NCCL settings where these must be equal.
// Every rank gets the same one.
type EnvError struct {
	Rank  string    // one of them, with its host: "rank 3 on gpu2"
	Other string    // the other
	Names []EnvName // by name
}

// EnvName is a setting that differs. A secret's value is hidden.
type EnvName struct {
	Name        string
	Rank, Other string // the values, for people
}

func (e *EnvError) Error() string {
	const most = 8
	var parts []string
	for _, n := range e.Names[:min(len(e.Names), most)] {
		parts = append(parts, fmt.Sprintf("%s is %s in %s, %s in %s", n.Name, n.Rank, e.Rank, n.Other, e.Other))
	}
	if more := len(e.Names) - most; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return "NCCL settings differ between ranks: " + strings.Join(parts, "; ")
}

// CheckEnv compares the NCCL settings in env, entries as of os.Environ, among all ranks,
// each of which must call it, once in an epoch of c. It returns when all have, with an
// *EnvError in every rank if settings differ that must be equal. At ctx's deadline the
// error names the ranks that have not come.
func CheckEnv(ctx context.Context, c *Client, env []string) error {
	const name = "check"
	if err := PutEnv(ctx, c, name, c.Rank(), env); err != nil {
		return err
	}
	if err := c.Barrier(ctx, envKey(name, "")); err != nil {
		return err
	}
	return SameEnv(ctx, c, name)
}

// PutEnv tells the others which NCCL settings a rank has in env, entries as of
// os.Environ. Name tells this comparison from others. Of the ranks with equal settings
// only the first is heard, and one of those that have others.
func PutEnv(ctx context.Context, s EnvStore, name string, rank int, env []string) error {
	scopes := map[string]envsync.Class{"job": envsync.ClassJob}
	if node := nodeOf(env); node != "" {
		scopes["host/"+node] = envsync.ClassHost
	}
	for _, scope := range slices.Backward(slices.Sorted(maps.Keys(scopes))) { // the job's first
		settings := envsync.Settings(env, scopes[scope])
		err := s.Put(ctx, envKey(name, scope), encodeSettings(settings))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code != CodeConflict {
			if err != nil {
				return err
			}
			continue
		}
		_, other, _ := strings.Cut(e.Text, "put by ") // only the store knows who was first
		odd, _ := json.Marshal(oddEnv{Rank: rank, Other: other, Scope: scope, Settings: shownSettings(settings)})
		if err := s.Put(ctx, envKey(name, "differs"), odd); err != nil && !conflicts(err) {
			return err
		}
	}
	return nil
}

// SameEnv returns an *EnvError if ranks that have called PutEnv have different settings.
// All ranks must have called it: that is the caller's to know.
func SameEnv(ctx context.Context, s EnvStore, name string) error {
	value, differs, err := s.Try(ctx, envKey(name, "differs"))
	if err != nil || !differs {
		return err
	}
	var odd oddEnv
	var first map[string]string
	if err := json.Unmarshal(value, &odd); err != nil {
		return fmt.Errorf("compared environments: %w", err)
	}
	text, _, err := s.Try(ctx, envKey(name, odd.Scope))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &first); err != nil {
		return fmt.Errorf("compared environments: %w", err)
	}
	rank := fmt.Sprintf("rank %d", odd.Rank)
	if err := s.Put(ctx, envKey(name, "differs"), nil); conflicts(err) { // only the store knows on which host who has put it is
		if _, who, ok := strings.Cut(err.Error(), "put by "); ok {
			rank = who
		}
	}
	return &EnvError{rank, odd.Other, compareSettings(odd.Settings, first)}
}

// oddEnv is a rank that has other settings than the first.
type oddEnv struct {
	Rank     int               `json:"rank"`
	Other    string            `json:"other"`
	Scope    string            `json:"scope"`
	Settings map[string]string `json:"settings"`
}

func envKey(name, part string) string { return strings.TrimSuffix("env/"+name+"/"+part, "/") }

func conflicts(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == CodeConflict
}

// nodeOf is the number of the host, "" if env does not tell.
func nodeOf(env []string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "GORUN_NODE_RANK="); ok {
			if _, err := strconv.Atoi(value); err == nil {
				return value
			}
		}
	}
	return ""
}

// mostSettings is the longest text of settings that the store is given as it is.
const mostSettings = MaxValue / 2

// encodeSettings is the same for equal settings, and for no others.
func encodeSettings(settings map[string]string) []byte {
	text, _ := json.Marshal(shownSettings(settings)) // sorts the names
	return text
}

// shownSettings are settings as they may be shown, and told from others: of secrets and
// long values a hash stands for what is not shown. Too many are one hash.
func shownSettings(settings map[string]string) map[string]string {
	const most = 200
	out, size := map[string]string{}, 0
	whole := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		fmt.Fprintf(whole, "%q=%q\n", name, value)
		_, text, _ := strings.Cut(envsync.Show(envsync.Var{Name: "X", Value: value[:min(len(value), most)]}), "=")
		if envsync.Hidden(name) {
			text = "<hidden>"
		}
		if envsync.Hidden(name) || len(value) > most {
			text += " (" + shortSum([]byte(value)) + ")"
		}
		out[name] = text
		size += 2 * (len(name) + len(text) + 8) // JSON may make it longer
	}
	if size > mostSettings {
		return map[string]string{"all settings": "many (" + hex.EncodeToString(whole.Sum(nil)[:8]) + ")"}
	}
	return out
}

func shortSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// compareSettings lists what is different.
func compareSettings(one, other map[string]string) []EnvName {
	names := map[string]bool{}
	for _, m := range []map[string]string{one, other} {
		for name := range m {
			names[name] = true
		}
	}
	text := func(m map[string]string, name string) string {
		if v, ok := m[name]; !ok {
			return "not set"
		} else if v == "" {
			return "empty"
		} else {
			return v
		}
	}
	var out []EnvName
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a, b := text(one, name), text(other, name); a != b {
			out = append(out, EnvName{name, a, b})
		}
	}
	return out
}
