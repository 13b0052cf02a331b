package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
)

// wantedTicks is about how many labels an axis gets.
const wantedTicks = 6

// span is the range of an axis.
type span struct{ min, max float64 }

// add widens the span to hold v.
func (s *span) add(v float64) {
	s.min, s.max = min(s.min, v), max(s.max, v)
}

// of applies an axis to the range of its data: the range that is drawn, and where it is labelled.
func (a Axis) of(data span, vertical bool) (span, []plot.Tick) {
	if a.Max != 0 {
		data.max = a.Max
	}
	if a.Log {
		return a.logarithmic(data, vertical)
	}
	if vertical || a.FromZero {
		data.min = min(data.min, 0)
	}
	if data.max <= data.min {
		data.max = data.min + 1
	}
	if a.Ticks != nil {
		return data, ticksAt(a.Ticks)
	}
	step := niceStep((data.max - data.min) / wantedTicks)
	first := math.Floor(data.min/step + 1e-9)
	last := math.Ceil(data.max/step - 1e-9)
	values := make([]float64, 0, int(last-first)+1)
	for i := first; i <= last; i++ {
		values = append(values, i*step)
	}
	drawn := data
	if a.Max == 0 && vertical {
		drawn.max = last * step
	}
	return drawn, ticksAt(slices.DeleteFunc(values, func(v float64) bool { return v > drawn.max+step/1e6 }))
}

// room is what a logarithmic y axis leaves below and above the data.
const room = 1.25

func (a Axis) logarithmic(data span, vertical bool) (span, []plot.Tick) {
	if !(data.min > 0) || math.IsInf(data.min, 0) {
		data = span{1, 10}
	}
	if data.max <= data.min {
		data = span{data.min / 2, data.min * 2}
	}
	if vertical {
		data = span{data.min / room, data.max * room}
	}
	if a.Ticks != nil {
		return data, ticksAt(a.Ticks)
	}
	return data, logTicks(data)
}

// logTicks labels 1, 2 and 5 of each decade if there are few decades, else the decades, and marks the digits between them.
func logTicks(s span) []plot.Tick {
	labelled := map[int]bool{1: true, 2: true, 5: true}
	if math.Log10(s.max/s.min) > 3 {
		labelled = map[int]bool{1: true}
	}
	var ticks []plot.Tick
	for decade := math.Floor(math.Log10(s.min)); decade <= math.Ceil(math.Log10(s.max)); decade++ {
		for digit := 1; digit < 10; digit++ {
			tick := plot.Tick{Value: float64(digit) * math.Pow(10, decade)}
			if tick.Value < s.min || tick.Value > s.max {
				continue
			}
			if labelled[digit] {
				tick.Label = number(tick.Value)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// niceStep is the least of 1, 2, 2.5 and 5 times a power of ten that is not below.
func niceStep(below float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(below)))
	for _, digit := range []float64{1, 2, 2.5, 5} {
		if digit*power >= below {
			return digit * power
		}
	}
	return 10 * power
}

func ticksAt(values []float64) []plot.Tick {
	ticks := make([]plot.Tick, len(values))
	for i, v := range values {
		ticks[i] = plot.Tick{Value: v, Label: number(v)}
	}
	return ticks
}

// number writes a value with a space between thousands, from five digits on.
func number(v float64) string {
	text := strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	sign := ""
	if whole, sign = strings.TrimPrefix(whole, "-"), text[:len(text)-len(strings.TrimPrefix(text, "-"))]; len(whole) > 4 {
		for i := len(whole) - 3; i > 0; i -= 3 {
			whole = whole[:i] + "\u00a0" + whole[i:]
		}
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction
}
