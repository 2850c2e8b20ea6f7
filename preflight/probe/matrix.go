package probe

import "time"

// Matrix is what all hosts have measured. Row i, column j is what host i found of its way
// to host j; zero is unknown.
type Matrix struct {
	Latency        [][]time.Duration // the shortest round trips
	BytesPerSecond [][]float64
}

// Gather makes the matrix of n hosts out of their results. What was not measured, or names
// a host that there is not, is left out; of two measurements of one way the better counts.
func Gather(n int, results []Result) Matrix {
	n = max(n, 0)
	m := Matrix{square[time.Duration](n), square[float64](n)}
	for _, r := range results {
		for _, link := range r.Links {
			i, j := r.From, link.Host
			if i < 0 || j < 0 || i >= n || j >= n || i == j {
				continue
			}
			if l := link.Latency; l > 0 && (m.Latency[i][j] == 0 || l < m.Latency[i][j]) {
				m.Latency[i][j] = l
			}
			if b := link.BytesPerSecond; b > m.BytesPerSecond[i][j] {
				m.BytesPerSecond[i][j] = b
			}
		}
	}
	return m
}

func square[T any](n int) [][]T {
	cells := make([]T, n*n)
	rows := make([][]T, n)
	for i := range rows {
		rows[i] = cells[i*n : (i+1)*n : (i+1)*n]
	}
	return rows
}
