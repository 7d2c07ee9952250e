import"./chunk-56AQIU6R.js";import"./chunk-RWCWJCE2.js";import"./chunk-KVZGKNO3.js";
