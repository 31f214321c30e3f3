package main

const (
	kinds        = 26
	pages        = kinds * 12
	staleSeconds = 2.0
)

// policy is what the responses of a kind of page permit; origin.php sends the fields.
type policy struct {
	fresh      float64 // seconds
	revalidate float64 // stale-while-revalidate
	ifError    float64 // stale-if-error
	strict     bool    // never stale
	never      bool    // never stored
	public     bool    // the same with Authorization
	delay      float64 // of the script
	tag        bool    // has an ETag
	fails      bool
}

var policies = [kinds]policy{
	0:  {fresh: 1},
	1:  {fresh: 1, revalidate: 2, tag: true},
	2:  {fresh: 0, strict: true, tag: true},
	3:  {never: true},
	4:  {fresh: 1},
	5:  {fresh: 60},
	6:  {fresh: 1, strict: true, public: true, tag: true},
	7:  {fresh: 1, ifError: 4, tag: true, fails: true},
	8:  {fresh: 1, strict: true, public: true, fails: true},
	9:  {never: true},
	10: {never: true},
	11: {fresh: 2},
	12: {fresh: 2, fails: true},
	13: {fresh: 1, delay: 0.3},
	14: {fresh: 2},
	15: {fresh: 2, public: true, tag: true},
	16: {fresh: 2},
	17: {fresh: 2},
	18: {fresh: 1},
	19: {fresh: 1},
	20: {never: true},
	21: {fresh: 2},
	22: {fresh: 1},
	23: {never: true},
	24: {fresh: 2},
	25: {fresh: 60},
}
