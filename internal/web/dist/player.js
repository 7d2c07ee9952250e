import"./chunk-HRZNWECK.js";import"./chunk-477XL7MT.js";
