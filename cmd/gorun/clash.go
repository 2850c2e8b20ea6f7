package main

import "slices"

// winning returns the uses that count: those of the last layer that has the flag. Of two
// flags that exclude each other that of the later layer counts.
func winning(layers ...[]use) []use {
	last := map[string]int{}
	var uses []use
	for i, layer := range layers {
		for _, u := range layer {
			last[u.name] = i
		}
		for _, u := range layer {
			for _, v := range uses {
				if j, ok := last[v.name]; ok && j == v.layer && j < i && clash(v, u) {
					delete(last, v.name)
				}
			}
		}
		for _, u := range layer {
			u.layer = i
			uses = append(uses, u)
		}
	}
	return slices.DeleteFunc(uses, func(u use) bool {
		i, ok := last[u.name]
		return !ok || i != u.layer
	})
}

// clash reports whether a use and one of a later layer cannot be had together.
func clash(before, u use) bool {
	if before.name == "host" && u.name == "hostfile" { // that list selects from another file
		return true
	}
	return contradictory(before, u) && !contradictory(before) && !contradictory(u)
}

// contradictory reports whether uses contradict each other. Of a value that is none
// somebody else tells.
func contradictory(uses ...use) bool {
	var o options
	if o.take(uses) != nil {
		return false
	}
	return o.appFile != "" && o.np > 0 || o.settle() != nil || o.checkPairs() != nil
}

// laterThan reports whether some program's flag is of a later layer than the job's other
// flag, which is there.
func (o *options) laterThan(flag, other string) bool {
	for _, of := range o.said[other] {
		for _, p := range o.programs() {
			for _, u := range p.said[flag] {
				if u.layer > of.layer {
					return true
				}
			}
		}
	}
	return false
}
