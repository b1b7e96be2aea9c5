package front

import (
	"sync"
	"sync/atomic"
)

// pieceSize is what a large body is read in, in bytes.
const pieceSize = 64 << 10

// piece is a part of a large body while it comes.
type piece [pieceSize]byte

// pieces keeps pieces that nobody needs for who needs one next: until the second
// collection from now, and so many at most. It is safe for concurrent use.
type pieces struct {
	most int64
	pool sync.Pool
	kept atomic.Int64 // in the pool, or collected since it was last found empty
}

func (p *pieces) take() *piece {
	if was, ok := p.pool.Get().(*piece); ok {
		p.kept.Add(-1)
		return was
	}
	p.kept.Store(0)
	return new(piece)
}

func (p *pieces) giveBack(old *piece) {
	if p.kept.Add(1) > p.most {
		p.kept.Add(-1)
		return
	}
	p.pool.Put(old)
}
