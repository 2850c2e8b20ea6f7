package cpu

import (
	"unsafe"

	"gorun/backend"
)

// kernel sets dst to a op b, element by element. The three have one length; dst may
// be a or b.
type kernel func(dst, a, b []byte)

// kernelOf returns how elements of type d are combined; Avg adds here, and divides
// with divide at the end.
func kernelOf(d backend.DType, how backend.Op) kernel {
	switch d {
	case backend.Int8:
		return kernelFor[int8](how)
	case backend.Int16:
		return kernelFor[int16](how)
	case backend.Int32:
		return kernelFor[int32](how)
	case backend.Int64:
		return kernelFor[int64](how)
	case backend.Uint8:
		return kernelFor[uint8](how)
	case backend.Uint16:
		return kernelFor[uint16](how)
	case backend.Uint32:
		return kernelFor[uint32](how)
	case backend.Uint64:
		return kernelFor[uint64](how)
	case backend.Float32:
		return kernelFor[float32](how)
	default:
		return kernelFor[float64](how)
	}
}

func kernelFor[T backend.Element](how backend.Op) kernel {
	switch how {
	case backend.Prod:
		return multiply[T]
	case backend.Min:
		return least[T]
	case backend.Max:
		return greatest[T]
	default:
		return add[T]
	}
}

// view returns b's memory, which must hold Ts, as such.
func view[T backend.Element](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// same returns the operands with their lengths known to be equal, which keeps bounds
// checks out of the loops: they are twice as fast without.
func same[T backend.Element](dst, a, b []byte) (d, x, y []T) {
	d = view[T](dst)
	return d, view[T](a)[:len(d)], view[T](b)[:len(d)]
}

// Each operation has a loop of its own: one loop that is given the operation as a
// function is slower, even where that is inlined.

func add[T backend.Element](dst, a, b []byte) {
	d, x, y := same[T](dst, a, b)
	for i := range d {
		d[i] = x[i] + y[i]
	}
}

func multiply[T backend.Element](dst, a, b []byte) {
	d, x, y := same[T](dst, a, b)
	for i := range d {
		d[i] = x[i] * y[i]
	}
}

func least[T backend.Element](dst, a, b []byte) {
	d, x, y := same[T](dst, a, b)
	for i := range d {
		d[i] = min(x[i], y[i])
	}
}

func greatest[T backend.Element](dst, a, b []byte) {
	d, x, y := same[T](dst, a, b)
	for i := range d {
		d[i] = max(x[i], y[i])
	}
}

// divide divides the elements of b, of type d, by n.
func divide(d backend.DType, b []byte, n int) {
	switch d {
	case backend.Int8:
		divideSigned[int8](b, n)
	case backend.Int16:
		divideSigned[int16](b, n)
	case backend.Int32:
		divideSigned[int32](b, n)
	case backend.Int64:
		divideSigned[int64](b, n)
	case backend.Uint8:
		divideUnsigned[uint8](b, n)
	case backend.Uint16:
		divideUnsigned[uint16](b, n)
	case backend.Uint32:
		divideUnsigned[uint32](b, n)
	case backend.Uint64:
		divideUnsigned[uint64](b, n)
	case backend.Float32:
		divideFloat[float32](b, n)
	case backend.Float64:
		divideFloat[float64](b, n)
	}
}

// The integers are divided in 64 bits: 256 ranks are none in a uint8.

func divideSigned[T int8 | int16 | int32 | int64](b []byte, n int) {
	for i, x := range view[T](b) {
		view[T](b)[i] = T(int64(x) / int64(n))
	}
}

func divideUnsigned[T uint8 | uint16 | uint32 | uint64](b []byte, n int) {
	for i, x := range view[T](b) {
		view[T](b)[i] = T(uint64(x) / uint64(n))
	}
}

func divideFloat[T float32 | float64](b []byte, n int) {
	for i, x := range view[T](b) {
		view[T](b)[i] = x / T(n)
	}
}
