package topo

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// addGPUs takes the GPUs and finds their rows in the matrix.
func (v *View) addGPUs(gpus []GPU) {
	rows := map[int]int{}
	if v.Matrix != nil {
		for i := range v.Matrix.GPUs {
			n, _ := gpuNumber(v.Matrix.Columns[i])
			rows[n] = i
		}
	}
	if gpus == nil {
		gpus = v.matrixGPUs()
	}
	gpus = slices.Clone(gpus)
	slices.SortStableFunc(gpus, func(a, b GPU) int { return cmp.Compare(a.Index, b.Index) })
	for _, g := range gpus {
		if _, ok := v.position[g.Index]; ok || len(v.GPUs) == maxGPUs {
			v.note("GPU%d is one GPU too many; it was left out.", g.Index)
			continue
		}
		v.position[g.Index] = len(v.GPUs)
		if row, ok := rows[g.Index]; ok {
			v.gpuAt[len(v.GPUs)] = row
			if n := oneNode(v.Matrix.NUMAAffinity[row]); n >= 0 && g.NUMA >= 0 && n != g.NUMA {
				v.note("GPU%d is on NUMA node %d for the kernel and on %d for nvidia-smi; the kernel was believed.", g.Index, g.NUMA, n)
			}
		} else if v.Matrix != nil {
			v.note("GPU%d is not in the matrix of nvidia-smi.", g.Index)
		}
		if g.MIG {
			v.note("GPU%d is split into parts (MIG), which have no NVLink.", g.Index)
		}
		v.GPUs = append(v.GPUs, g)
		v.gpuPlace = append(v.gpuPlace, placeOf(g.Device))
	}
	if v.Matrix != nil && v.Matrix.GPUs > len(v.gpuAt) {
		v.note("The matrix of nvidia-smi has %d GPUs of which the PCI devices are not known.", v.Matrix.GPUs-len(v.gpuAt))
	}
}

func (v *View) matrixGPUs() []GPU {
	if v.Matrix == nil {
		return nil
	}
	gpus := make([]GPU, v.Matrix.GPUs)
	for i := range gpus {
		gpus[i].Index, _ = gpuNumber(v.Matrix.Columns[i])
		gpus[i].NUMA = oneNode(v.Matrix.NUMAAffinity[i])
	}
	return gpus
}

// oneNode returns the NUMA node of an affinity that names but one, and -1 of all others.
func oneNode(affinity string) int {
	if n, err := strconv.Atoi(affinity); err == nil && n >= 0 {
		return n
	}
	return -1
}

// addNICs takes the NICs, judges which are usable, and finds their columns in the matrix.
func (v *View) addNICs(nics []NIC) {
	fromMatrix := nics == nil && v.Matrix != nil
	if fromMatrix {
		for _, name := range v.Matrix.Names[v.Matrix.GPUs:] {
			nics = append(nics, NIC{Name: name, Device: Device{NUMA: -1}})
		}
		if len(nics) > 0 {
			v.note("State, link layer and rate of the NICs are not known: all are taken to be usable.")
		}
	}
	for _, n := range v.inPCIOrder(nics) {
		if _, ok := v.named[n.Name]; ok || len(v.NICs) == maxDevices {
			v.note("NIC %q is one NIC too many; it was left out.", n.Name)
			continue
		}
		at := len(v.NICs)
		v.named[n.Name] = at
		v.NICs = append(v.NICs, n)
		v.nicPlace = append(v.nicPlace, placeOf(n.Device))
		if v.Matrix == nil {
			continue
		}
		if i := slices.Index(v.Matrix.Names, n.Name); i >= v.Matrix.GPUs {
			v.nicAt[at] = i
		}
	}
	judgeNICs(v.NICs)
	if v.Matrix == nil || fromMatrix {
		return
	}
	var strangers []string
	for i, name := range v.Matrix.Names[v.Matrix.GPUs:] {
		if _, ok := v.named[name]; !ok {
			strangers = append(strangers, v.Matrix.Columns[v.Matrix.GPUs+i]+" ("+name+")")
		}
	}
	if len(strangers) > 0 {
		v.note("The matrix of nvidia-smi has NICs that the kernel does not name: %s.", strings.Join(strangers, ", "))
	}
}

// inPCIOrder sorts NICs by address, or, if some have none, by the columns of the matrix, which are
// in that order too.
func (v *View) inPCIOrder(nics []NIC) []NIC {
	nics = slices.Clone(nics)
	without := func(n NIC) bool {
		_, ok := parseBDF(n.BDF)
		return !ok
	}
	if slices.ContainsFunc(nics, without) {
		if v.Matrix != nil {
			column := func(n NIC) int { return cmp.Or(slices.Index(v.Matrix.Names, n.Name)+1, len(v.Matrix.Names)+1) }
			slices.SortStableFunc(nics, func(a, b NIC) int { return cmp.Compare(column(a), column(b)) })
		}
		return nics
	}
	slices.SortStableFunc(nics, func(a, b NIC) int {
		x, _ := parseBDF(a.BDF)
		y, _ := parseBDF(b.BDF)
		return x.compare(y)
	})
	return nics
}
