import"./chunk-IBK5U57C.js";import"./chunk-7S7AOGFR.js";
