import"./chunk-MAP4AOH3.js";import"./chunk-COV2NZTP.js";import"./chunk-QYY5N45H.js";
