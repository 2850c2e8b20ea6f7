package backend

import (
	"fmt"
	"unsafe"
)

// DType is the type of a buffer's elements.
type DType uint8

// The element types. The zero DType is none: that of Buffer{}.
const (
	Int8 DType = iota + 1
	Int16
	Int32
	Int64
	Uint8
	Uint16
	Uint32
	Uint64
	Float32
	Float64
)

var dtypes = [...]struct {
	name string
	size int
}{
	0:       {"no type", 0},
	Int8:    {"int8", 1},
	Int16:   {"int16", 2},
	Int32:   {"int32", 4},
	Int64:   {"int64", 8},
	Uint8:   {"uint8", 1},
	Uint16:  {"uint16", 2},
	Uint32:  {"uint32", 4},
	Uint64:  {"uint64", 8},
	Float32: {"float32", 4},
	Float64: {"float64", 8},
}

// String returns the Go name of the type.
func (d DType) String() string {
	if int(d) >= len(dtypes) {
		return fmt.Sprintf("type %d", uint8(d))
	}
	return dtypes[d].name
}

// Size is the number of bytes of one element; 0 if d is no element type.
func (d DType) Size() int {
	if int(d) >= len(dtypes) {
		return 0
	}
	return dtypes[d].size
}

// Op says how an AllReduce combines elements.
type Op uint8

// The operations. Integers wrap around; Min and Max of a NaN and anything are NaN.
const (
	Sum  Op = iota + 1
	Prod    // product
	Min     // smallest
	Max     // largest
	Avg     // sum divided by the number of ranks, once, at the end; integers round towards zero
)

var ops = [...]string{"no operation", "sum", "prod", "min", "max", "avg"}

// String returns the operation's name, as "sum".
func (o Op) String() string {
	if int(o) >= len(ops) {
		return fmt.Sprintf("operation %d", uint8(o))
	}
	return ops[o]
}

// Valid reports whether o is one of the operations.
func (o Op) Valid() bool { return o >= Sum && o <= Avg }

// Element is a type that Of takes. Types derived from these are left out on purpose:
// a half-precision number kept in a type of its own would be added as an integer.
type Element interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Buffer is typed memory that a collective reads or writes. It is a value that refers
// to the memory, as a slice does.
type Buffer struct {
	dtype DType
	count int
	host  []byte
}

// Of returns the buffer of s's elements. It does not copy.
func Of[T Element](s []T) Buffer {
	d := dtypeOf[T]()
	start := (*byte)(unsafe.Pointer(unsafe.SliceData(s)))
	return Buffer{dtype: d, count: len(s), host: unsafe.Slice(start, len(s)*d.Size())}
}

// DType is the type of the elements.
func (b Buffer) DType() DType { return b.dtype }

// Count is the number of elements.
func (b Buffer) Count() int { return b.count }

// Bytes is the memory itself, in this machine's byte order. A backend uses it.
func (b Buffer) Bytes() []byte { return b.host }

func dtypeOf[T Element]() DType {
	var zero T
	switch any(zero).(type) {
	case int8:
		return Int8
	case int16:
		return Int16
	case int32:
		return Int32
	case int64:
		return Int64
	case uint8:
		return Uint8
	case uint16:
		return Uint16
	case uint32:
		return Uint32
	case uint64:
		return Uint64
	case float32:
		return Float32
	default:
		return Float64
	}
}
