package front

import (
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// Several fronts tell their figures through one provider.
func TestEveryServersLastResortsAreCounted(t *testing.T) {
	r := sdkmetric.NewManualReader()
	p := sdkmetric.NewMeterProvider(sdkmetric.WithReader(r))
	for i, name := range []string{"a", "b", "c"} {
		f := &Front{o: Options{Server: name}}
		if err := f.instrument(p); err != nil {
			t.Fatal(err)
		}
		f.count.lastResorts.Add(int64(i))
	}
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != "kalpa.mcp.front.last_resorts" || !ok {
				continue
			}
			got := map[string]int64{}
			for _, point := range sum.DataPoints {
				server, _ := point.Attributes.Value("server")
				got[server.AsString()] = point.Value
			}
			if len(got) != 3 || got["b"] != 1 || got["c"] != 2 {
				t.Errorf("last resorts by server: %v", got)
			}
			return
		}
	}
	t.Error("nobody counts last resorts")
}
