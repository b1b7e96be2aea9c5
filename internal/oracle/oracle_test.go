package oracle

import (
	"flag"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var (
	onWorkerd = flag.Bool("workerd", false, "run the programs on the real runtime as well, and compare")
	record    = flag.Bool("record", false, "write down what is seen: on workerd with -workerd, and where it is meant to differ on kalpa")
)

const dir = "testdata/oracle"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func read(t *testing.T) []*File {
	t.Helper()
	files, err := ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestWorkerdShowsWhatIsRecorded(t *testing.T) {
	if !*onWorkerd {
		t.Skip("make oracle runs it")
	}
	binary, err := FindWorkerd(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range read(t) {
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

func TestKalpaShowsWhatWorkerdShows(t *testing.T) {
	listed, err := Differences()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range read(t) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			d := listed[f.Name]
			if missing := Unsupported(f.Program); (len(missing) > 0) != (d.State == Pending) {
				t.Fatalf("kalpa has nothing for %q; in the list it is %q", missing, d.State)
			} else if len(missing) > 0 {
				return
			}
			got, err := Run(t.Context(), &Kalpa{}, f.Program)
			if err != nil {
				t.Fatal(err)
			}
			want := Comparable(f.Workerd)
			switch {
			case d.State == "" && got != want:
				t.Errorf("kalpa shows something else than workerd, and is not in the list (-workerd +kalpa):\n%s", cmp.Diff(want, got))
			case d.State == "" && f.Kalpa != "":
				t.Error("the file says what kalpa shows, and it is the same: take it out")
			case d.State == "":
			case got == want:
				t.Errorf("it is in the list as %s, and is the same: take it out", d.State)
			case *record:
				f.Kalpa = got
				if err := f.Write(); err != nil {
					t.Fatal(err)
				}
			case got != f.Kalpa:
				t.Errorf("kalpa differs in another way than the file says (-file +kalpa):\n%s", cmp.Diff(f.Kalpa, got))
			}
		})
	}
	for name := range listed {
		if _, err := ReadFile(dir + "/" + name + ".txt"); err != nil {
			t.Errorf("it is in the list, and there is no such program: %v", err)
		}
	}
}
