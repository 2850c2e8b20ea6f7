package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// envJob is the environments of four ranks on two hosts, with what each has beside the rest.
func envJob(more ...[]string) [][]string {
	out := make([][]string, 4)
	for rank := range out {
		out[rank] = []string{"NCCL_ALGO=Ring", fmt.Sprintf("GORUN_NODE_RANK=%d", rank/2), "NCCL_DEBUG_FILE=" + fmt.Sprint(rank)}
		if rank < len(more) {
			out[rank] = append(out[rank], more[rank]...)
		}
	}
	return out
}

// memEnv is a store of keys for ranks of one process.
type memEnv struct {
	mu   sync.Mutex
	keys map[string]entry // guarded by mu
}

// memRank is one rank's end of a memEnv.
type memRank struct {
	*memEnv
	rank int
}

func (m memRank) Put(_ context.Context, key string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.keys[key]; ok && string(old.value) != string(value) {
		return &Error{Code: CodeConflict, Text: fmt.Sprintf("key %q already has another value, put by rank %d on n", key, old.rank)}
	} else if !ok {
		m.keys[key] = entry{value, m.rank}
	}
	return nil
}

func (m memRank) Try(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.keys[key]
	return e.value, ok, nil
}

func TestSameEnv(t *testing.T) {
	long := strings.Repeat("x", 300)
	many := []string{}
	for i := range 3000 {
		many = append(many, fmt.Sprintf("NCCL_MANY_%d=%d", i, i))
	}
	tests := []struct {
		name string
		more [][]string
		want string // of the error, "" for none
	}{
		{"equal", nil, ""},
		{"another-value", [][]string{3: {"NCCL_PROTO=LL"}}, "NCCL_PROTO is LL in rank 3 on n, not set in rank 0 on n"},
		{"set-in-the-first", [][]string{{"NCCL_PROTO=LL"}}, "NCCL_PROTO is not set in rank 1 on n, LL in rank 0 on n"},
		{"empty", [][]string{1: {"NCCL_PROTO="}}, "NCCL_PROTO is empty in rank 1 on n, not set in rank 0 on n"},
		{"host-name-per-host", [][]string{{"NCCL_IB_HCA=a"}, {"NCCL_IB_HCA=a"}, {"NCCL_IB_HCA=b"}, {"NCCL_IB_HCA=b"}}, ""},
		{"host-name-within-host", [][]string{{"NCCL_IB_HCA=a"}, {"NCCL_IB_HCA=a"}, {"NCCL_IB_HCA=b"}, {"NCCL_IB_HCA=c"}}, "NCCL_IB_HCA is c in rank 3 on n, b in rank 2 on n"},
		{"long-value", [][]string{2: {"NCCL_PROTO=" + long}}, "NCCL_PROTO is " + long[:200] + " ("},
		{"end-of-a-long-value", [][]string{{"NCCL_PROTO=" + long + "a"}, {"NCCL_PROTO=" + long + "a"}, {"NCCL_PROTO=" + long + "b"}, {"NCCL_PROTO=" + long + "a"}}, "in rank 2"},
		{"secret", [][]string{2: {"NCCL_X_TOKEN=hush"}}, "NCCL_X_TOKEN is <hidden> ("},
		{"odd-value", [][]string{2: {"NCCL_PROTO=\x1b[2J\xff"}}, `NCCL_PROTO is "\x1b[2J\xff" in rank 2`},
		{"too-many", [][]string{2: many}, "all settings is many ("},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &memEnv{keys: map[string]entry{}}
			for rank, env := range envJob(tt.more...) {
				if err := PutEnv(t.Context(), memRank{m, rank}, "x", rank, env); err != nil {
					t.Fatal(err)
				}
			}
			err := SameEnv(t.Context(), memRank{m, 1}, "x")
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v; want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

// Every rank is told the same.
func TestCheckEnv(t *testing.T) {
	j := newTestJob(t, 2, 2)
	for epoch, more := range [][][]string{nil, {2: {"NCCL_PROTO=LL"}}} {
		errs := make([]error, 4)
		var wg sync.WaitGroup
		for rank, env := range envJob(more...) {
			c := j.client(rank).At(epoch)
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				errs[rank] = CheckEnv(ctx, c, env)
			})
		}
		wg.Wait()
		for rank, err := range errs {
			e, differs := errors.AsType[*EnvError](err)
			if differs != (more != nil) || err != nil && (!differs || err.Error() != errs[0].Error() || e.Names[0].Name != "NCCL_PROTO") {
				t.Errorf("epoch %d, rank %d: got %v", epoch, rank, err)
			}
		}
	}
}
