package agent

import (
	"debug/elf"
	"path"
	"regexp"
	"strings"
)

// openMPI matches the libraries of Open MPI 2 and later; MPICH's have other numbers.
const openMPI = `^libmpi(_[a-z0-9_]+)?\.so\.(20|40|80)(\.[0-9]+)*$`

// isOpenMPI reports whether a mapped file is a library of Open MPI's.
func isOpenMPI(file string) bool {
	base := path.Base(file)
	return strings.HasPrefix(base, "libmpi") && regexp.MustCompile(openMPI).MatchString(base)
}

// foreignMPI returns a library that the program file is linked with and that asks
// another launcher than gorun for its rank, "" if there is none: each rank of such a
// program would believe to be rank 0 of 1. What cannot be read has none.
func foreignMPI(file string) string {
	f, err := elf.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	pmix := ""
	for _, l := range libraries {
		switch {
		case regexp.MustCompile(openMPI).MatchString(l):
			return l
		case strings.HasPrefix(l, "libpmix.so"):
			pmix = l
		case strings.HasPrefix(l, "libprrte"), strings.HasPrefix(l, "libopen-rte"): // a launcher of its own
			return ""
		}
	}
	return pmix
}

// checkMPI refuses a program that would not find the other ranks.
func (j *job) checkMPI(r *rank, known map[string]string) error {
	if j.plan.PMI == nil || j.plan.Size == 1 {
		return nil
	}
	library, ok := known[r.path]
	if !ok {
		library = foreignMPI(within(r.dir, r.path))
		known[r.path] = library
	}
	if library == "" {
		return nil
	}
	return cannotRun("program %q is linked with %s, of Open MPI or PMIx, which gorun does not serve: each rank would be rank 0 of 1", r.argv[0], library)
}
