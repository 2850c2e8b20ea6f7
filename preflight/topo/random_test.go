package topo

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// randomHost has n GPUs and some NICs, connected as no machine is, from a seed.
func randomHost(seed uint64, n, nics int) *View {
	r := rand.New(rand.NewPCG(seed, 0))
	cells := make([][]Link, n+nics)
	for i := range cells {
		cells[i] = make([]Link, n+nics)
		cells[i][i] = Link{Kind: Self}
		for j := range i {
			l := Link{Kind: PIX + Kind(r.IntN(5))}
			if i < n && r.IntN(2) == 0 {
				l = Link{Kind: NV, NVLinks: 1 + r.IntN(3)}
			}
			cells[i][j], cells[j][i] = l, l
		}
	}
	m := square(n, func(i, j int) Link { return cells[i][j] })
	for i := range nics {
		m.Columns = append(m.Columns, "mlx5_"+string(rune('0'+i)))
	}
	m.Names, m.Cells = m.Columns, cells
	return New(nil, nil, m)
}

func TestRandomHosts(t *testing.T) {
	for seed := range uint64(60) {
		n := 1 + int(seed%9)
		v := randomHost(seed, n, 1+int(seed%5))
		if v.Matrix == nil {
			t.Fatalf("seed %d: the matrix was not believed: %q", seed, v.Notes)
		}
		whole := func(what string, groups ...[]int) {
			all := slices.Concat(groups...)
			slices.Sort(all)
			if !slices.Equal(all, sequence(n)) {
				t.Errorf("seed %d: %s: got %v; want each of %d GPUs once", seed, what, groups, n)
			}
		}
		ring, far := v.Ring(v.Order())
		whole("order", v.Order())
		whole("ring", ring)
		if got := v.farthestStep(ring); n > 1 && got != far {
			t.Errorf("seed %d: ring %v has a step by %s; it says %s", seed, ring, got, far)
		}
		whole("islands", v.Islands()...)
		whole("cliques", v.Cliques()...)
		for _, c := range v.Cliques() {
			if !v.IsClique(c) {
				t.Errorf("seed %d: %v is no clique", seed, c)
			}
		}
		for tp := 1; tp <= n; tp++ {
			g := v.Groups(tp)
			whole("groups", append(slices.Clone(g.Groups), g.Left)...)
			if len(g.Left) != n%tp {
				t.Errorf("seed %d: tp %d: got %v left of %d", seed, tp, g.Left, n)
			}
		}
	}
}

// cheapest tries all assignments of different columns to rows from row on.
func cheapest(rows, columns int, cost func(int, int) int64, row int, taken uint64) int64 {
	if row == rows {
		return 0
	}
	best := int64(1) << 60
	for j := range columns {
		if taken&(1<<j) == 0 {
			best = min(best, cost(row, j)+cheapest(rows, columns, cost, row+1, taken|1<<j))
		}
	}
	return best
}

func TestMatchIsCheapest(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		rows := 1 + r.IntN(4)
		columns := rows + r.IntN(3)
		costs := make([]int64, rows*columns)
		for i := range costs {
			costs[i] = linkCost(Link{Kind: PIX + Kind(r.IntN(6))}) + r.Int64N(10)
		}
		cost := func(i, j int) int64 { return costs[i*columns+j] }
		sum, taken := int64(0), uint64(0)
		for i, j := range match(rows, columns, cost) {
			if taken&(1<<j) != 0 {
				t.Fatalf("seed %d: column %d twice", seed, j)
			}
			taken |= 1 << j
			sum += cost(i, j)
		}
		if want := cheapest(rows, columns, cost, 0, 0); sum != want {
			t.Errorf("seed %d: got cost %d; want %d", seed, sum, want)
		}
	}
}

func TestSharingIsFairAndNear(t *testing.T) {
	for _, tt := range []struct {
		name string
		gpus int
		to   [][]Kind // per NIC, per GPU
		want string
	}{
		{"as-many-on-each", 8, [][]Kind{repeat(NODE, 8), repeat(NODE, 8)}, "mlx5_0 mlx5_0 mlx5_0 mlx5_0 mlx5_1 mlx5_1 mlx5_1 mlx5_1"},
		{"far-one-is-not-taken", 2, [][]Kind{{PIX, PIX}, {SYS, SYS}}, "mlx5_0 mlx5_0"},
		{"several-switches-are-near-enough", 2, [][]Kind{{PIX, PIX}, {PXB, PXB}}, "mlx5_0 mlx5_1"},
		{"who-has-no-choice-first", 2, [][]Kind{{PIX, SYS}, {PIX, PIX}}, "mlx5_0 mlx5_1"},
		{"who-has-no-choice-first-though-later", 2, [][]Kind{{PIX, PIX}, {PIX, SYS}}, "mlx5_1 mlx5_0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := square(tt.gpus, func(i, j int) Link { return Link{Kind: SYS} })
			for k, to := range tt.to {
				m.Columns = append(m.Columns, "mlx5_"+string(rune('0'+k)))
				row := make([]Link, 0, tt.gpus+k+1)
				for i := range m.Cells {
					l := Link{Kind: SYS}
					if i < tt.gpus {
						l = Link{Kind: to[i]}
					}
					m.Cells[i] = append(m.Cells[i], l)
					row = append(row, l)
				}
				m.Cells = append(m.Cells, append(row, Link{Kind: Self}))
			}
			m.Names = m.Columns
			if got := assigned(New(nil, nil, m)); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
		})
	}
}

func repeat(k Kind, n int) []Kind { return slices.Repeat([]Kind{k}, n) }
