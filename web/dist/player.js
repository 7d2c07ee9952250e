import"./chunk-H7PYOJJL.js";import"./chunk-ONUODUKW.js";import"./chunk-KVZGKNO3.js";
