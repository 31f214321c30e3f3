<?php
return ['required' => 'The :attribute is missing.', 'max' => ['string' => 'The :attribute is longer than :max.'], 'integer' => 'The :attribute is no number.'];
