package oracle

import (
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	onWorkerd = flag.Bool("workerd", false, "run the programs on the real runtime as well, and compare")
	record    = flag.Bool("record", false, "with -workerd: write down what is seen there")
)

const dir = "testdata/oracle"

func TestWorkerd(t *testing.T) {
	if !*onWorkerd {
		t.Skip("make oracle runs it")
	}
	binary, err := FindWorkerd(".")
	if err != nil {
		t.Fatal(err)
	}
	files, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			got, err := Run(t.Context(), &Workerd{Binary: binary, Dir: t.TempDir()}, f.Program)
			switch {
			case err != nil:
				t.Fatal(err)
			case got == f.Workerd:
			case *record:
				f.Workerd = got
				if err := f.Write(); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("workerd shows something else than was recorded (-recorded +seen):\n%s", cmp.Diff(f.Workerd, got))
			}
		})
	}
}
